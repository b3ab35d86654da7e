package simulation

import (
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// plays is how often a seed is played whose first two traces differ, and alike how many of these
// have to be the same.
const plays, alike = 8, 4

// TestSameSeedSameTrace plays seeds several times. Where Go's scheduler takes the processor from a
// goroutine in the middle of what it does, which a busy machine, the race detector and the collector
// bring about, a request may hold one partition more or less. So a trace may part from the seed's at a
// request to Kafka, now and then: where two differ, half of eight have to be the same.
func TestSameSeedSameTrace(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	for seed := uint64(1); seed <= 30; seed++ {
		first, second := traceOf(t, seed), traceOf(t, seed)
		if slices.Equal(first, second) {
			continue
		}
		i := parts(first, second)
		t.Logf("seed %d has two traces; operation %d is\n%s\nonce and then\n%s", seed, i, at(first, i), at(second, i))
		if !strings.Contains(at(first, i), "kafka ") || !strings.Contains(at(second, i), "kafka ") {
			t.Errorf("seed %d: its traces part at operation %d, which isn't a request to Kafka", seed, i)
		}
		counts := map[string]int{strings.Join(first, "\n"): 1, strings.Join(second, "\n"): 1}
		for range plays - 2 {
			counts[strings.Join(traceOf(t, seed), "\n")]++
		}
		if most := slices.Max(slices.Collect(maps.Values(counts))); most < alike {
			t.Errorf("seed %d: played %d times, and no trace came more than %d times", seed, plays, most)
		}
	}
}

func traceOf(t *testing.T, seed uint64) []string {
	t.Helper()
	w, err := play(t, seed, randomWorld)
	if err != nil {
		t.Fatalf("seed %d: %v\n%s", seed, err, w.trace.tail(40))
	}
	if len(w.trace.lines) < 20 {
		t.Errorf("seed %d: a trace of %d lines says little", seed, len(w.trace.lines))
	}
	return w.trace.lines
}

// parts returns where two traces part.
func parts(a, b []string) (i int) {
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	return i
}

// at returns line i of a trace, and that it has ended where it has.
func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "the end"
}
