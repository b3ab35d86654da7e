package simulation

import (
	"errors"
	"fmt"
	"slices"
	"testing/synctest"
	"time"

	"github.com/cdc-relay/cdc-relay/checkpoint"
	"github.com/cdc-relay/cdc-relay/internal/relay"
	"github.com/cdc-relay/cdc-relay/sink/kafka"
)

// stepsMost bounds a run: a relay that needs more doesn't get on.
const stepsMost = 20_000

// run plays the world to its end: with faults, then without until everything is published and
// stored, then a clean stop and a start that must repeat nothing. It returns what was broken.
func (w *world) run() error {
	defer w.end()
	for w.busy() {
		if !w.step() {
			return w.verdict()
		}
	}
	w.faults.left, w.faults.at = 0, 0
	w.mend()
	for !w.settled() {
		if !w.step() {
			return w.verdict()
		}
	}
	for range 2 {
		w.specs = plan(w.rng, w.rng.IntN(4))
		for range w.rng.IntN(60) {
			if !w.step() {
				return w.verdict()
			}
		}
		if !w.stopCleanly() {
			break
		}
	}
	return w.verdict()
}

// busy says whether the world still has something in store.
func (w *world) busy() bool {
	if w.faults.at > 0 {
		return !w.settled()
	}
	return len(w.specs) > 0 || w.faults.left > 0
}

// settled says whether everything is published, stored and told.
func (w *world) settled() bool {
	synctest.Wait()
	pg := w.pg
	if len(w.specs) > 0 || w.life == nil || w.life.asked || w.rules.began == 0 || pg.source == nil || !pg.source.running.Load() || w.rules.missing() != nil {
		return false
	}
	last := w.rules.began
	for _, t := range pg.txns {
		if len(t.events) > 0 {
			last = max(last, t.end)
		}
	}
	return pg.row.Stored >= last && pg.source.next == len(pg.txns) && w.life.events == 0 && !pg.source.inside && !w.life.lookedFor.Load()
}

// stopCleanly stops the relay where nothing is wrong, and starts it again.
func (w *world) stopCleanly() bool {
	n := w.life.n
	w.steps++
	w.trace.line(w.steps, "stop", "")
	w.life.ask()
	for w.life != nil && w.life.n == n {
		if !w.step() {
			return false
		}
	}
	if w.rules.clean != n {
		w.rules.broken("a stop of life %d with nothing wrong was not clean", n)
		return false
	}
	for !w.settled() {
		if !w.step() {
			return false
		}
	}
	return true
}

func (w *world) verdict() error {
	if w.rules.err == nil {
		if e := w.rules.missing(); e != nil {
			w.rules.broken("%s is not in the log at the end", e)
		}
	}
	return w.rules.err
}

// end takes the life down, so that the bubble can end.
func (w *world) end() {
	if w.life != nil {
		w.life.crash()
	}
}

// step does one operation and checks all rules. It returns false when one is broken.
func (w *world) step() bool {
	synctest.Wait()
	w.notice()
	w.rules.check()
	if w.rules.err != nil {
		return false
	}
	if w.steps > stepsMost {
		w.rules.broken("it doesn't get on: %d operations", w.steps)
		return false
	}
	if w.faults.at > 0 && w.steps >= w.faults.at {
		w.faults.at = 0
		if !w.inject(w.faults.kind) {
			w.count(struckNothing)
		}
		return w.rules.err == nil
	}
	if w.faults.left > 0 && w.rng.IntN(30) == 0 {
		if w.inject(worldFaults[w.rng.IntN(len(worldFaults))]) {
			w.faults.left--
		}
		return w.rules.err == nil
	}
	w.pick()
	synctest.Wait()
	w.rules.check()
	return w.rules.err == nil
}

// notice takes note of what ended by itself.
func (w *world) notice() {
	if s := w.pg.source; s != nil && (s.closed.Load() || s.l != w.life) {
		w.pg.detach()
	}
	if w.life == nil {
		return
	}
	select {
	case err := <-w.life.done:
		w.ended(w.life, err)
		w.life = nil
	default:
		if w.life.stuck.Load() { // as the relay asks for
			w.life.crash()
		}
	}
}

// ended judges how a relay ended.
func (w *world) ended(l *life, err error) {
	w.steps++
	w.trace.line(w.steps, fmt.Sprintf("life %d ended: %v", l.n, err), "")
	l.dead.Store(true)
	w.board.of(l)
	var left *relay.UnackedError
	switch {
	case !l.asked:
		w.rules.broken("life %d gave up: %v", l.n, err)
	case err == nil:
		w.count(cleanStop)
		if w.pg.row != nil && w.pg.row.Owner == l.token { // else what is left is another relay's matter
			w.rules.clean = l.n
		}
	case errors.As(err, &left):
		w.count(dirtyStop)
		w.rules.left(l, left)
	default:
		w.rules.broken("life %d was stopped and says: %v", l.n, err)
	}
}

// topic is told what the sink says about the topic.
func (l *life) topic(err error) {
	var regressed *kafka.RegressedError
	var stuck *kafka.StuckError
	switch {
	case errors.As(err, &regressed):
		l.world.rules.broken("the sink takes the log for regressed, and it isn't: %v", err)
	case errors.As(err, &stuck):
		l.world.rules.stuck(l, stuck)
		l.stuck.Store(true)
	}
}

// pick does one of the operations that can be done, or lets time pass.
func (w *world) pick() {
	ops := w.board.open()
	own := w.own()
	if len(ops)+len(own) == 0 || w.rng.IntN(16) == 0 {
		d := 100 * time.Millisecond // where nothing is wrong any more, time is no reason to give up
		if w.faults.left > 0 || len(ops)+len(own) == 0 {
			d = []time.Duration{100 * time.Millisecond, time.Second, 3 * time.Second}[w.rng.IntN(3)]
		}
		w.steps++
		w.trace.line(w.steps, "time passes", "")
		w.pass(d)
		return
	}
	ops = append(ops, own...)
	o := ops[w.rng.IntN(len(ops))]
	if o.life != nil {
		w.board.remove(o)
	}
	fault := ""
	if w.faults.left > 0 && len(o.faults) > 0 && w.rng.IntN(12) == 0 {
		fault = o.faults[w.rng.IntN(len(o.faults))]
		w.faults.left--
		w.count(fault)
	}
	w.steps++
	w.count(operations)
	w.trace.line(w.steps, o.key, fault)
	o.do(fault)
}

// apart keeps the scheduler from waking at the very instant at which the relay does, where chance
// would decide who is first.
const apart = 17300 * time.Nanosecond

// pass lets time pass.
func (w *world) pass(d time.Duration) {
	for o := w.board.first(); o != nil; o = w.board.first() {
		w.board.remove(o)
		o.do("")
		synctest.Wait()
	}
	w.trace.note("%s", d)
	sleep(d + apart)
}

// own are the operations of the world itself.
func (w *world) own() (ops []*op) {
	pg, c := w.pg, w.cluster
	add := func(when bool, key string, do func()) {
		if when {
			ops = append(ops, &op{key: key, do: func(string) { do() }})
		}
	}
	heals := w.rng.IntN(8) == 0 // what is away stays away for a while
	add(w.life == nil, "relay starts", w.begin)
	add(pg.down && heals, "postgres is back", func() { pg.down = false })
	add(pg.slot != nil && pg.slot.stolen && heals, "the other relay lets the slot go", func() { pg.slot.stolen = false })
	add(c.sick() && heals, "all batches are taken again", c.heal)
	for _, n := range c.nodes {
		add(n.down && heals, "broker "+n.host+" is back", func() { n.down = false })
	}
	if pg.down {
		return ops
	}
	add(len(w.specs) > 0 && (w.rules.began > 0 || !w.patient), "application commits", func() {
		t := pg.commit(w.specs[0])
		w.specs = w.specs[1:]
		if t != nil {
			w.trace.note("%s to %s, %d events", t.commit, t.end, len(t.events))
		}
	})
	add(pg.slot != nil && pg.slot.saved != pg.slot.confirmed, "checkpoint", func() { pg.slot.saved = pg.slot.confirmed })
	add(len(pg.orphans) > 0, "lost statement lands", func() {
		o := pg.orphans[0]
		pg.orphans = pg.orphans[1:]
		if err := pg.save(o.owner, o.stored); err != nil && !errors.Is(err, checkpoint.ErrOwnerLost) {
			panic(err)
		}
	})
	add(len(c.late) > 0, "lost request arrives", func() {
		r := c.late[0]
		c.late = slices.Delete(c.late, 0, 1)
		w.trace.note("%s", r)
		c.land(r)
	})
	if s := pg.source; s != nil && s.running.Load() {
		add(s.st.Stored() > s.told, "status leaves", func() { pg.statuses = append(pg.statuses, s.status()) })
	}
	add(len(pg.statuses) > 0, "status arrives", func() {
		pg.confirm(pg.statuses[0])
		pg.statuses = pg.statuses[1:]
	})
	return ops
}
