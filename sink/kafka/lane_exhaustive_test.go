package kafka

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/sink"
)

// rules say what the environment may do.
type rules struct {
	name    string
	depth   int
	records int  // handed over at most
	bad     uint // refused at the beginning
	start   func(w *world)
	late    bool
	toggles int // changes of what is refused
	forget  int // times that the broker forgets or lies
	truncat int // times that the log loses its end
	cuts    bool
	stops   bool // the topic can be unavailable
	limit   int  // bytes of a batch
}

// finishes checks that a lane gets everything settled once the broker answers and verdicts
// settle: that it is never stuck.
func (w *world) finishes() bool {
	w = w.clone()
	for range 200 {
		switch w.lane.state {
		case idle, halted:
			return w.lane.state == halted || w.settled == w.appends
		case noID:
			w.b.nextID++
			w.step(event{kind: evID, id: w.b.nextID})
		case ready:
			w.step(event{kind: evTake, limit: 1 << 20})
		case inFlight:
			w.answer(w.deliver(w.inFlight(), true))
		case backingOff:
			w.step(event{kind: evTimer})
		case probing:
			w.step(w.probe())
		case asking:
			w.verdict()
		}
	}
	return false
}

// ignoresStrays checks that events which don't belong to the lane's state change nothing.
func (w *world) ignoresStrays() bool {
	for state, ev := range map[laneState]event{
		ready:      {kind: evTake, limit: 1 << 20},
		inFlight:   {kind: evAnswer, class: acked, offset: 1000},
		backingOff: {kind: evTimer},
		noID:       {kind: evID, id: 99},
		probing:    {kind: evProbed, known: true, epoch: 7},
		asking:     {kind: evVerdict, verdict: sink.Settled},
	} {
		c := w.clone()
		if w.lane.state != state && (len(c.lane.step(ev, nil)) > 0 || c.hash() != w.hash()) {
			return false
		}
	}
	return true
}

// explore visits every world within depth steps of w and returns how many there were.
func explore(t *testing.T, r *rules) (states int, seen map[string]int) {
	visited := make(map[uint64]int)
	seen = make(map[string]int)
	var visit func(w *world, left int)
	visit = func(w *world, left int) {
		if t.Failed() {
			return
		}
		h := w.hash()
		if d, ok := visited[h]; ok && d >= left {
			return
		}
		if _, ok := visited[h]; !ok && !w.closed && h%16 == 0 && !w.finishes() {
			t.Errorf("stuck in state %d after: %s", w.lane.state, strings.Join(w.trace, "; "))
			return
		}
		if !w.ignoresStrays() {
			t.Errorf("a stray event moves state %d after: %s", w.lane.state, strings.Join(w.trace, "; "))
		}
		visited[h] = left
		seen[fmt.Sprint("state ", w.lane.state)]++
		if left == 0 {
			return
		}
		for _, c := range w.choices(r) {
			n := w.clone()
			n.trace = append(n.trace, c.name)
			seen[c.name]++
			c.do(n)
			if len(n.failures) > 0 {
				t.Errorf("%s\nafter: %s\nlog %v, settled %d, put away %b", strings.Join(n.failures, "\n"),
					strings.Join(n.trace, "; "), n.b.log, n.settled, n.put)
				return
			}
			visit(n, left-1)
		}
	}
	w := &world{lane: newLane(r.limit)}
	w.b.bad = r.bad
	if r.start != nil {
		r.start(w)
	}
	visit(w, r.depth)
	return len(visited), seen
}

// started has an id, and n records handed over.
func started(n int) func(w *world) {
	return func(w *world) {
		for range n {
			w.appends++
			w.step(event{kind: evAppend, record: modelRecords[w.appends-1], size: modelRecordSize})
		}
		if w.lane.state == noID {
			w.b.nextID++
			w.step(event{kind: evID, id: w.b.nextID})
		}
	}
}

// laneRules are the environments that a lane is explored in.
func laneRules() []rules {
	const small = batchOverhead + 2*modelRecordSize // two records a batch
	return []rules{
		{name: "from nothing", depth: 40, records: 3, late: true, limit: 1 << 10},
		{name: "good records", depth: 40, records: 5, start: started(2), late: true, limit: small},
		{name: "topic stops", depth: 40, records: 3, bad: 0b10, start: started(2), late: true, stops: true, limit: 1 << 10},
		{name: "first is bad", depth: 40, records: 4, bad: 0b1, start: started(3), late: true, limit: 1 << 10},
		{name: "middle is bad", depth: 40, records: 4, bad: 0b10, start: started(3), late: true, limit: 1 << 10},
		{name: "two are bad", depth: 40, records: 5, bad: 0b101, start: started(4), late: true, limit: 1 << 10},
		{name: "small batches, bad", depth: 40, records: 6, bad: 0b11, start: started(3), late: true, limit: small},
		{name: "a limit changes", depth: 24, records: 4, bad: 0b1, start: started(3), late: true, toggles: 1, limit: 1 << 10},
		{name: "limits change", depth: 30, records: 3, start: started(3), late: true, toggles: 2, limit: 1 << 10},
		{name: "forgetful or lying", depth: 20, records: 4, start: started(3), late: true, forget: 2, limit: small},
		{name: "forgetful, bad", depth: 24, records: 4, bad: 0b10, start: started(3), late: true, forget: 1, limit: 1 << 10},
		{name: "log loses its end", depth: 40, records: 4, start: started(2), late: true, truncat: 1, limit: small},
		{name: "closed on each request", depth: 40, records: 4, start: func(w *world) {
			started(3)(w)
			w.lane.cuts = soloAfter + maxCuts - 1
		}, late: true, cuts: true, limit: 1 << 10},
	}
}

func TestLaneExhaustive(t *testing.T) {
	if n := recordSize(modelRecords[0]); n > modelRecordSize {
		t.Fatalf("model records have %d bytes", n)
	}
	deep := 0
	if testing.Short() {
		deep = -8
	}
	for _, r := range laneRules() {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			r.depth += deep
			n, seen := explore(t, &r)
			t.Logf("%d states, %v", n, seen)
		})
	}
}
