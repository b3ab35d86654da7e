package kafka

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// wildRules are the environments of the exhaustive exploration with more records and more that
// goes wrong.
func wildRules() []rules {
	all := laneRules()
	for i := range all {
		r := &all[i]
		r.records = len(modelRecords)
		if r.toggles > 0 {
			r.toggles = 8
		}
		if r.forget > 0 {
			r.forget = 4
		}
	}
	everything := rules{
		name: "everything", bad: 0b100100, start: started(3), late: true, toggles: 8, stops: true, cuts: true,
		records: len(modelRecords), limit: batchOverhead + 3*modelRecordSize,
	}
	all = append(all, everything)
	everything.name, everything.forget = "everything, forgetful or lying", 4
	all = append(all, everything)
	everything.name, everything.forget, everything.truncat = "everything, log loses its end", 0, 2
	return append(all, everything)
}

// walk leads a lane where the exhaustive exploration doesn't get to. The first byte of a script
// chooses the environment, each of the others what happens next.
func walk(t *testing.T, all []rules, script []byte) (settled int) {
	r := &all[int(script[0])%len(all)]
	w := &world{lane: newLane(r.limit)}
	w.b.bad = r.bad
	if r.start != nil {
		r.start(w)
	}
	for _, b := range script[1:] {
		cs := w.choices(r)
		if len(cs) == 0 {
			break
		}
		c := cs[int(b)%len(cs)]
		if c.name == "close" && b < 250 {
			continue // nothing much happens after it
		}
		w.trace = append(w.trace, c.name)
		c.do(w)
		if len(w.failures) > 0 {
			t.Fatalf("%s: %s\nafter: %s\nlog %v, settled %d, put away %b", r.name, strings.Join(w.failures, "\n"),
				strings.Join(w.trace, "; "), w.b.log, w.settled, w.put)
		}
		if !w.ignoresStrays() {
			t.Fatalf("%s: a stray event moves state %d after: %s", r.name, w.lane.state, strings.Join(w.trace, "; "))
		}
	}
	if !w.closed && !w.finishes() {
		t.Fatalf("%s: stuck in state %d after: %s", r.name, w.lane.state, strings.Join(w.trace, "; "))
	}
	return w.settled
}

func FuzzLane(f *testing.F) {
	all := wildRules()
	for i := range all {
		f.Add([]byte{byte(i), 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233})
	}
	f.Add([]byte(strings.Repeat("\x07\x01\x00\x02\x09", 60)))
	f.Add([]byte(strings.Repeat("\x09\x03\x00\x01\x04\x02", 50)))
	f.Fuzz(func(t *testing.T, script []byte) {
		if 0 < len(script) && len(script) <= 500 {
			walk(t, all, script)
		}
	})
}

// TestLaneWalks walks at random. LANE_WALKS makes it longer, LANE_SEED repeats one.
func TestLaneWalks(t *testing.T) {
	n := number(t, "LANE_WALKS", 500)
	seed := number(t, "LANE_SEED", int(time.Now().UnixNano()))
	t.Logf("LANE_SEED=%d", seed)
	dice := rand.New(rand.NewPCG(uint64(seed), 2))
	all := wildRules()
	settled, script := 0, make([]byte, 400)
	for range n {
		for i := range script {
			script[i] = byte(dice.Uint32())
		}
		settled += walk(t, all, script)
	}
	t.Logf("%d records settled in %d walks", settled, n)
	if settled < n {
		t.Error("the walks lead nowhere")
	}
}
