package kafka

import (
	"fmt"
	"slices"

	"github.com/cdc-relay/cdc-relay/sink"
)

// choice is one thing that may happen next.
type choice struct {
	name string
	do   func(w *world)
}

// choices lists what may happen next in w.
func (w *world) choices(r *rules) []choice {
	var cs []choice
	add := func(name string, do func(w *world)) { cs = append(cs, choice{name, do}) }
	if w.appends < r.records && !w.closed {
		add("append", func(w *world) {
			w.appends++
			w.step(event{kind: evAppend, record: modelRecords[w.appends-1], size: modelRecordSize})
		})
	}
	switch w.lane.state {
	case noID:
		if !w.closed {
			add("id", func(w *world) { w.b.nextID++; w.step(event{kind: evID, id: w.b.nextID}) })
		}
	case ready:
		if !w.closed {
			add("take", func(w *world) { w.step(event{kind: evTake, limit: 1 << 20}) })
		}
	case backingOff:
		if !w.closed {
			add("timer", func(w *world) { w.step(event{kind: evTimer}) })
		}
	case inFlight:
		w.answers(r, add)
	case probing:
		add("probe", func(w *world) { w.step(w.probe()) })
		add("probe fails", func(w *world) { w.step(event{kind: evProbed}) })
	case asking:
		add("settled", func(w *world) { w.verdict() })
		add("retry", func(w *world) { w.step(event{kind: evVerdict, verdict: sink.Retry}) })
	}
	for i := range w.late {
		add("late copy arrives", func(w *world) {
			q := w.late[i]
			w.late = slices.Delete(w.late, i, i+1)
			w.deliver(q, true)
		})
	}
	if w.toggles < r.toggles && w.appends > 0 {
		for n := w.settled; n < min(w.appends, w.settled+2); n++ {
			add(fmt.Sprintf("what is refused changes for %d", n), func(w *world) { w.toggles++; w.b.bad ^= 1 << n })
		}
	}
	if w.wild < r.forget && w.b.known {
		add("broker forgets", func(w *world) { w.wild++; w.b.known = false; w.forgot = true })
	}
	if w.wild < r.truncat && w.b.known && w.b.base >= 0 {
		add("log loses its end", func(w *world) { w.truncate() })
	}
	if !w.closed {
		add("close", func(w *world) { w.closed = true; w.step(event{kind: evClose}) })
	}
	return cs
}

// probe is what the broker says of the lane's producer.
func (w *world) probe() event {
	ev := event{kind: evProbed, known: true, lastSeq: -1}
	if w.b.known && w.b.id == w.lane.id {
		ev.epoch, ev.lastSeq = w.b.epoch, w.b.last
	}
	return ev
}

// verdict settles the record that the lane asks about.
func (w *world) verdict() {
	w.blind = w.blind || w.lane.doubted && w.mayBeLogged()
	w.step(event{kind: evVerdict, verdict: sink.Settled})
}

// mayBeLogged says that a copy of what is in doubt is in the log, or may still get there.
func (w *world) mayBeLogged() bool {
	return len(w.late) > 0 || slices.Contains(w.b.log, w.settled)
}

// lost says that records which were acknowledged are not in the log.
func (w *world) lost() bool {
	for n := range w.settled {
		if w.put>>n&1 == 0 && !slices.Contains(w.b.log, n) {
			return true
		}
	}
	return false
}

// truncate removes the last batch of the log, of which nothing is left behind, as when a leader
// comes back that never had it.
func (w *world) truncate() {
	w.wild++
	w.cut, w.forgot = true, true
	w.b.log = w.b.log[:w.b.base]
	w.b.last = w.b.first - 1
	w.b.first = w.b.last // an older batch, which nobody sends again
	w.b.base = -1
}

// answers lists what may become of the batch in flight.
func (w *world) answers(r *rules, add func(string, func(w *world))) {
	add("answered", func(w *world) { w.answer(w.deliver(w.inFlight(), true)) })
	if w.b.bad != 0 {
		add("answered, no index", func(w *world) { w.answer(w.deliver(w.inFlight(), false)) })
	}
	add("appended, answer lost", func(w *world) {
		w.deliver(w.inFlight(), true)
		w.answer(event{class: unknown, cut: r.cuts, alone: true})
	})
	add("lost on the way", func(w *world) { w.answer(event{class: unknown, cut: r.cuts, alone: true}) })
	add("refused", func(w *world) { w.answer(event{class: refused}) })
	if r.stops {
		add("topic stops", func(w *world) { w.answer(event{class: stopped, code: codeTopicAuth}) })
		add("topic missing", func(w *world) { w.answer(event{class: missing, code: codeUnknownTopic}) })
		add("strange code, appended", func(w *world) {
			w.deliver(w.inFlight(), true)
			w.answer(event{class: strange, code: 999})
		})
	}
	if r.late && len(w.late) < 2 {
		add("late", func(w *world) {
			w.late = append(w.late, w.inFlight())
			w.answer(event{class: unknown, cut: r.cuts, alone: true})
		})
	}
	if w.wild < r.forget {
		for _, code := range []int16{45, 46, 47, 59} {
			add(fmt.Sprintf("%d without a cause", code), func(w *world) {
				w.wild++
				w.forgot = true
				ev := event{class: classify(code), code: code, offset: -1}
				if code == codeDuplicateSequence && w.sent.maybe {
					// It says so only of what it has.
					if got := w.deliver(w.inFlight(), true); got.class != acked {
						ev = got
					}
				}
				w.answer(ev)
			})
		}
	}
}
