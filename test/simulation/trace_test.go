package simulation

import (
	"runtime/debug"
	"slices"
	"testing"
)

// TestSameSeedSameTrace plays seeds several times. Where Go's scheduler takes the processor from a
// goroutine in the middle of what it does, which a busy machine and the collector bring about, a request
// may hold one partition more or less. So of three traces of a seed two have to be equal.
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
		if slices.Equal(traces[0], traces[2]) || slices.Equal(traces[1], traces[2]) {
			continue
		}
		i := 0
		for traces[0][i] == traces[2][i] {
			i++
		}
		t.Errorf("seed %d: three traces, and no two are equal; operation %d is\n%s\nonce and then\n%s", seed, i, traces[0][i], traces[2][i])
	}
	if other > 5 {
		t.Errorf("%d of 30 seeds had two traces", other)
	}
}
