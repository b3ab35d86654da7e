package simulation

import (
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// TestSameSeedSameTrace plays seeds several times. Where Go's scheduler takes the processor from a
// goroutine in the middle of what it does, which a busy machine and the collector bring about, a request
// may hold one partition more or less. So of three traces of a seed two have to be equal, the third
// may part from them at a request to Kafka only, and no more than one seed may have such a third.
func TestSameSeedSameTrace(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	other := 0
	for seed := uint64(1); seed <= 30; seed++ {
		var traces [][]string
		for range 3 {
			w, err := play(t, seed, randomWorld)
			if err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, w.trace.tail(40))
			}
			if len(w.trace.lines) < 20 {
				t.Errorf("seed %d: a trace of %d lines says little", seed, len(w.trace.lines))
			}
			traces = append(traces, w.trace.lines)
			if len(traces) == 2 && slices.Equal(traces[0], traces[1]) {
				break
			}
		}
		if len(traces) == 2 {
			continue
		}
		other++
		i := parts(traces[0], traces[1])
		t.Logf("seed %d has two traces; operation %d is\n%s\nonce and then\n%s", seed, i, at(traces[0], i), at(traces[1], i))
		if !strings.Contains(at(traces[0], i), "kafka ") || !strings.Contains(at(traces[1], i), "kafka ") {
			t.Errorf("seed %d: its traces part at operation %d, which isn't a request to Kafka", seed, i)
		}
		if !slices.Equal(traces[0], traces[2]) && !slices.Equal(traces[1], traces[2]) {
			t.Errorf("seed %d: three traces, and no two are equal", seed)
		}
	}
	if other > 1 {
		t.Errorf("%d of 30 seeds had two traces", other)
	}
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
