package checkpoint

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/cdc-relay/cdc-relay/wal"
)

// world is a Postgres with an outbox, a slot and our row, and the events in Kafka. A relay runs
// in it for a while and is killed at any point; servers forget, fail over, are restored; people
// drop and move slots. It knows what a relay can't: which events are missing in Kafka.
type world struct {
	now     wal.LSN
	srv     Server
	events  []worldEvent
	rows    []rowVersion // every version of our row and where in WAL it was written
	slot    *Slot
	least   wal.LSN // where the slot was when it was made: it forgets no further
	origin  wal.LSN // what was committed before isn't ours to publish
	harmed  bool    // somebody did what a relay may refuse to go on after
	starts  int
	refused int
}

type worldEvent struct {
	commit  wal.LSN
	inKafka bool
}

type rowVersion struct {
	at  wal.LSN
	row *Row
}

// commitSize is the length of an event's commit record.
const commitSize = 10

func newWorld() *world {
	return &world{now: 100, srv: Server{SystemID: "a", Timeline: 1, Database: "db"}}
}

func (w *world) row() *Row {
	if len(w.rows) == 0 {
		return nil
	}
	return w.rows[len(w.rows)-1].row
}

func (w *world) timeline() int32 {
	if w.row() == nil {
		return 0
	}
	return w.row().Timeline
}

func (w *world) write(change func(*Row)) {
	r := Row{Slot: "s"}
	if w.row() != nil {
		r = *w.row()
	}
	change(&r)
	w.rows = append(w.rows, rowVersion{w.now, &r})
	w.now += 3
}

func (w *world) commit(fate) {
	w.events = append(w.events, worldEvent{commit: w.now})
	w.now += commitSize
}

func (w *world) makeSlot() {
	w.now += 2
	w.slot, w.least = slotAt(w.now, nil), w.now
}

// run is one life of a relay. steps is how many steps it makes before it is killed.
func (w *world) run(t fate) {
	steps := int(t.between(0, 12, "steps"))
	alive := func() bool { steps--; return steps >= 0 }
	w.srv.Flushed = w.now
	row := w.row()
	got, err := Decide("s", row, w.slot, w.srv)
	if err != nil {
		if !w.harmed {
			t.Fatalf("refused though nothing happened that a relay can't bear: %v", err)
		}
		var refused *RefuseError
		if !errors.As(err, &refused) {
			t.Fatal(err)
		}
		w.refused++
		return
	}
	w.starts++
	switch got.Action {
	case FirstStart, CreateSlot:
		w.write(func(r *Row) { r.State, r.SystemID, r.Timeline = Creating, w.srv.SystemID, w.srv.Timeline })
		if !alive() {
			return
		}
		w.makeSlot()
		got.From = w.slot.Confirmed
		fallthrough
	case GoLive, Adopt:
		w.origin = got.From
		if !alive() {
			return
		}
		fallthrough
	case Failover:
		w.write(func(r *Row) {
			r.State, r.SystemID, r.Timeline, r.Stored = Live, w.srv.SystemID, w.srv.Timeline, got.From
		})
	case Resume:
	}
	w.noGap(t, got)
	w.stream(got.From, alive)
}

// noGap: Postgres sends what was committed at or after both the start and the slot's position. An
// event before that which isn't in Kafka must have been named, and can only be there because
// somebody moved the slot.
func (w *world) noGap(t fate, got Start) {
	sent := max(got.From, w.slot.Confirmed)
	for i, e := range w.events {
		if w.harmed && got.Presumed != 0 && e.commit >= got.Presumed && e.commit < got.From && !e.inKafka {
			w.events[i].inKafka = true // said, and so somebody's business from here on
			continue
		}
		if !e.inKafka && e.commit >= w.origin && e.commit < sent {
			t.Fatalf("%v at %d with a slot at %d steps over the event committed at %d, which isn't in Kafka\n%s\n%s\n%s",
				got.Action, got.From, w.slot.Confirmed, e.commit, w.row(), w.slot, w.srv)
		}
	}
}

// stream publishes in order: Kafka's ack, our row, the slot.
func (w *world) stream(from wal.LSN, alive func() bool) {
	for i := range w.events {
		e := &w.events[i]
		if e.commit < from || e.commit < w.slot.Confirmed {
			continue
		}
		if !alive() {
			return
		}
		e.inKafka = true
		if !alive() {
			return
		}
		end := e.commit + commitSize
		w.write(func(r *Row) { r.Stored = max(r.Stored, end) })
		if !alive() {
			return
		}
		w.slot.Confirmed = max(w.slot.Confirmed, end)
	}
}

// forget: a restart before Postgres 17 takes the slot back to what was last on disk.
func (w *world) forget(t fate) {
	if w.slot == nil || w.slot.Confirmed <= w.least {
		t.Skip("no position to forget")
	}
	w.slot.Confirmed = t.between(w.least, w.slot.Confirmed, "on disk")
}

// promote makes a standby the primary that had received everything up to some point. Its slot
// had been brought over, at a position that may be older than the row, or newer than its row.
func (w *world) promote(t fate) {
	least := max(w.now, 50) - 30
	if n := len(w.srv.History); n > 0 {
		least = max(least, w.srv.History[n-1].End) // a timeline doesn't end before it began
	}
	end := t.between(least, w.now, "switch")
	if w.slot != nil && end < w.least {
		t.Skip("the slot came after the switch")
	}
	w.srv.History = append(append([]Switch(nil), w.srv.History...), Switch{w.srv.Timeline, end})
	w.srv.Timeline++
	kept := w.events[:0]
	for _, e := range w.events {
		if e.commit+commitSize <= end {
			kept = append(kept, e)
		}
	}
	w.events = kept
	timeline := w.timeline()
	for len(w.rows) > 0 && w.rows[len(w.rows)-1].at >= end {
		w.rows = w.rows[:len(w.rows)-1]
	}
	if w.timeline() < timeline {
		w.harmed = true // a second failover lost what was written at the first: a relay may refuse
	}
	if w.slot != nil {
		top := min(w.slot.Confirmed, end)
		w.slot.Confirmed = t.between(w.least, top, "synchronised")
	} else if w.row() != nil {
		w.harmed = true
	}
	w.now = end + 5
}

func (w *world) dropSlot(t fate) {
	if w.slot == nil {
		t.Skip("no slot")
	}
	w.slot, w.harmed = nil, true
}

func (w *world) recreateSlot(fate) {
	w.makeSlot()
	w.harmed = true
}

func (w *world) moveSlot(t fate) {
	if w.slot == nil {
		t.Skip("no slot")
	}
	w.slot.Confirmed = t.between(w.slot.Confirmed, w.now+50, "moved to")
	w.least = w.slot.Confirmed
	w.harmed = true
}

func (w *world) loseSlot(t fate) {
	if w.slot == nil {
		t.Skip("no slot")
	}
	w.slot.WALStatus, w.harmed = "lost", true
}

// restore brings a dump of the database into another system, whose LSNs are unrelated.
func (w *world) restore(t fate) {
	w.srv = Server{SystemID: w.srv.SystemID + "b", Timeline: 1, Database: "db"}
	w.now = t.between(50, 2000, "position of the new system")
	w.slot, w.harmed = nil, true
	for i := range w.events {
		w.events[i].commit = 0 // they are rows there, and never will be in its stream
	}
	if row := w.row(); row != nil {
		w.rows = []rowVersion{{w.now, row}}
	}
	if t.between(0, 1, "with a slot") == 1 {
		w.makeSlot()
	}
}

// TestDecideWorld: whatever happened, a start never steps over an event that isn't in Kafka; and
// what a relay must bear (kills, restarts, failovers with the slot) is never refused.
func TestDecideWorld(t *testing.T) {
	var starts, refused int
	rapid.Check(t, func(t *rapid.T) {
		w := playWorld(t)
		starts += w.starts
		refused += w.refused
	})
	if starts < 10 || refused == 0 {
		t.Errorf("only %d starts and %d refusals: the world is too quiet", starts, refused)
	}
}

// playWorld lets anything happen, in any order.
func playWorld(t *rapid.T) *world {
	w := newWorld()
	acts := map[string]func(*rapid.T){}
	for _, a := range worldActs {
		if !a.people {
			acts[a.name] = func(t *rapid.T) { a.act(w, drawn{t}) }
		}
	}
	if rapid.Bool().Draw(t, "people interfere") {
		for _, a := range worldActs {
			acts[a.name] = func(t *rapid.T) { a.act(w, drawn{t}) }
		}
	}
	t.Repeat(acts)
	return w
}

// worldActs are what can happen. What happens often is there several times.
var worldActs = []struct {
	name   string
	act    func(*world, fate)
	people bool // nothing that a relay must bear
}{
	{"commit", (*world).commit, false},
	{"commit2", (*world).commit, false},
	{"run", (*world).run, false},
	{"run2", (*world).run, false},
	{"run3", (*world).run, false},
	{"forget", (*world).forget, false},
	{"promote", (*world).promote, false},
	{"drop", (*world).dropSlot, true},
	{"recreate", (*world).recreateSlot, true},
	{"move", (*world).moveSlot, true},
	{"lose", (*world).loseSlot, true},
	{"restore", (*world).restore, true},
}

// fate decides what isn't decided yet.
type fate interface {
	between(least, most wal.LSN, what string) wal.LSN
	Skip(why ...any) // this can't happen now; does not return
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// drawn is the fate of a property of rapid.
type drawn struct{ *rapid.T }

func (d drawn) between(least, most wal.LSN, what string) wal.LSN {
	return wal.LSN(rapid.Uint64Range(uint64(least), uint64(most)).Draw(d.T, what))
}
