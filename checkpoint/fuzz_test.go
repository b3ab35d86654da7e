package checkpoint

import (
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/wal"
)

// FuzzTracker reads bytes as calls of a tracker, right ones and wrong ones, and compares each
// answer with the reference. Two bytes are a call: what it is, and its argument.
func FuzzTracker(f *testing.F) {
	f.Fuzz(func(t *testing.T, events, bytes uint8, start uint16, calls []byte) {
		if len(calls) > 800 {
			return // the reference looks at everything each time
		}
		lim := Limits{Events: 1 + int(events), Bytes: 1 + int64(bytes)}
		d := trackerCalls{
			t: t, tr: NewTracker(wal.LSN(start), lim), now: time.Unix(1_700_000_000, 0),
			ref: reference{lim: lim, start: wal.LSN(start), received: wal.LSN(start), refused: -1},
		}
		for ; len(calls) >= 2 && d.frozen == nil; calls = calls[2:] {
			d.call(calls[0], int(calls[1]))
		}
		if d.frozen == nil {
			d.compare()
		}
	})
}

type trackerCalls struct {
	t      *testing.T
	tr     *Tracker
	ref    reference
	now    time.Time
	frozen any // what the misuse said
}

func (d *trackerCalls) call(what byte, arg int) {
	switch what % 8 {
	case 0:
		d.begin()
	case 1, 2:
		d.add(arg)
	case 3:
		d.seal(d.ref.received + wal.LSN(arg%32))
	case 4:
		d.idle(d.ref.received + wal.LSN(arg%64) - min(d.ref.received, 32))
	case 5, 6:
		d.ack(arg)
	case 7:
		d.wrong(arg)
	}
	if d.frozen == nil {
		d.compare()
	}
}

func (d *trackerCalls) begin() {
	if d.ref.open {
		d.misuse(func() { d.tr.Begin(d.now) })
		return
	}
	d.now = d.now.Add(time.Second)
	d.tr.Begin(d.now)
	d.open(d.now)
}

func (d *trackerCalls) open(commit time.Time) {
	d.ref.open = true
	d.ref.txs = append(d.ref.txs, refTx{commit: commit, first: len(d.ref.events), point: -1})
}

func (d *trackerCalls) add(size int) {
	if !d.ref.open { // Add opens a transaction of which nobody said when it was committed
		if !d.ref.fits(size) {
			if _, ok := d.tr.Add(size); ok {
				d.t.Fatalf("an event of %d bytes is admitted", size)
			}
			return
		}
		d.open(time.Time{})
	}
	want := d.ref.fits(size)
	ticket, ok := d.tr.Add(size)
	if ok != want {
		d.t.Fatalf("an event of %d bytes is admitted: %t, want %t", size, ok, want)
	}
	if !ok {
		return
	}
	x := &d.ref.txs[len(d.ref.txs)-1]
	if x.ticket != 0 && x.ticket != ticket {
		d.t.Fatalf("one transaction has the tickets %d and %d", x.ticket, ticket)
	}
	x.ticket = ticket
	d.ref.events = append(d.ref.events, refEvent{tx: len(d.ref.txs) - 1, bytes: size})
}

func (d *trackerCalls) seal(end wal.LSN) {
	if !d.ref.open {
		d.open(time.Time{})
	}
	d.tr.Seal(end)
	d.ref.txs[len(d.ref.txs)-1].point = len(d.ref.points)
	d.point(end)
	d.ref.open = false
}

func (d *trackerCalls) idle(end wal.LSN) {
	d.tr.Idle(end)
	if !d.ref.open && end > d.ref.received {
		d.point(end)
	}
}

func (d *trackerCalls) point(end wal.LSN) {
	d.ref.points = append(d.ref.points, refPoint{end, len(d.ref.events)})
	d.ref.received = end
}

// inFlight are the events that aren't acknowledged, by their transaction.
func (d *trackerCalls) inFlight() (txs []int, events map[int][]int) {
	events = map[int][]int{}
	for i, e := range d.ref.events {
		if e.acked {
			continue
		}
		if events[e.tx] == nil {
			txs = append(txs, e.tx)
		}
		events[e.tx] = append(events[e.tx], i)
	}
	return txs, events
}

// ack settles some of the open events of one transaction: which one, and how many, is arg's.
func (d *trackerCalls) ack(arg int) {
	txs, events := d.inFlight()
	if len(txs) == 0 {
		return
	}
	tx := txs[arg%len(txs)]
	which := events[tx][:1+arg/16%len(events[tx])]
	var size int64
	for _, i := range which {
		d.ref.events[i].acked = true
		size += int64(d.ref.events[i].bytes)
	}
	d.tr.Ack(d.ref.txs[tx].ticket, len(which), size)
}

// wrong makes a call that no right caller makes, where arg says so.
func (d *trackerCalls) wrong(arg int) {
	txs, events := d.inFlight()
	switch arg {
	case 0:
		if d.ref.received > 0 {
			d.misuse(func() { d.tr.Seal(d.ref.received - 1) })
		}
	case 1:
		d.misuse(func() { d.tr.Add(-1) })
	case 2:
		d.misuse(func() { d.tr.Ack(0, 1, 0) })
	case 3, 4, 5, 7:
		if len(txs) == 0 {
			return
		}
		ticket, open := d.ref.txs[txs[0]].ticket, len(events[txs[0]])
		var size int64
		for _, i := range events[txs[0]] {
			size += int64(d.ref.events[i].bytes)
		}
		switch arg {
		case 3:
			d.misuse(func() { d.tr.Ack(ticket, open+1, size) })
		case 4:
			d.misuse(func() { d.tr.Ack(ticket, open, size+1) })
		case 5:
			d.misuse(func() { d.tr.Ack(ticket, 0, 0) })
		case 7:
			if size > 0 {
				d.misuse(func() { d.tr.Ack(ticket, open, size-1) })
			}
		}
	case 6:
		for _, x := range d.ref.txs { // one that has settled all of its events
			if i := x.ticket; i != 0 && events[d.ref.events[x.first].tx] == nil && x.point >= 0 {
				d.misuse(func() { d.tr.Ack(i, 1, 0) })
				return
			}
		}
	}
}

// misuse makes a wrong call. The position never moves again, and nothing is admitted.
func (d *trackerCalls) misuse(call func()) {
	before := d.tr.Confirmed()
	func() {
		defer func() { d.frozen = recover() }()
		call()
	}()
	if invariants != (d.frozen != nil) {
		d.t.Fatalf("a wrong call panics: %v, want %t", d.frozen, invariants)
	}
	if d.frozen != nil {
		return // the process is gone
	}
	if d.frozen = d.tr.Err(); d.frozen == nil {
		d.t.Fatal("a wrong call went unnoticed")
	}
	select {
	case <-d.tr.Room():
	default:
		d.t.Fatal("whoever waits for room would wait for ever")
	}
	txs, events := d.inFlight()
	for _, tx := range txs {
		for _, i := range events[tx] {
			d.tr.Ack(d.ref.txs[tx].ticket, 1, int64(d.ref.events[i].bytes))
		}
	}
	d.tr.Seal(d.ref.received + 1)
	d.tr.Idle(d.ref.received + 2)
	if _, ok := d.tr.Add(0); ok || d.tr.Confirmed() != before {
		d.t.Fatalf("after a wrong call: an event is admitted: %t, confirmed went from %d to %d", ok, before, d.tr.Confirmed())
	}
}

func (d *trackerCalls) compare() {
	want, wantDone := d.ref.confirmed()
	if got, done := d.tr.Progress(); got != want || int(done) != wantDone {
		d.t.Fatalf("confirmed %d with %d events, want %d with %d", got, done, want, wantDone)
	}
	wantEvents, wantBytes := d.ref.inFlight()
	if events, bytes := d.tr.InFlight(); events != wantEvents || bytes != wantBytes {
		d.t.Fatalf("in flight %d of %d bytes, want %d of %d", events, bytes, wantEvents, wantBytes)
	}
	if err := d.tr.Err(); err != nil {
		d.t.Fatal(err)
	}
}

// FuzzDecide gives Decide any row, slot and server and compares what it says with naiveDecide,
// and with what makes a start safe.
func FuzzDecide(f *testing.F) {
	states := []State{"", Live, Creating, Retired, "paused"}
	statuses := []string{"reserved", "extended", "unreserved", "lost", "", "x"}
	f.Fuzz(func(t *testing.T, hasRow bool, state uint8, rowSystem string, rowTimeline int32, stored uint64,
		faults, status uint8, plugin string, confirmed uint64, pid int32,
		flushed uint64, timeline int32, history []byte,
	) {
		var r *Row
		if hasRow {
			r = &Row{Slot: "s", State: states[int(state)%len(states)], SystemID: rowSystem, Timeline: rowTimeline, Stored: wal.LSN(stored)}
		}
		var s *Slot
		if faults&1 == 0 {
			s = &Slot{Name: "s", Plugin: plugin, Database: "db", Confirmed: wal.LSN(confirmed), WALStatus: statuses[int(status)%len(statuses)], ActivePID: pid}
			s.Temporary, s.TwoPhase = faults&2 != 0, faults&4 != 0
			if faults&8 != 0 {
				s.Database = "other"
			}
			if faults&16 != 0 {
				s.Invalid = "wal_removed"
			}
		}
		srv := Server{SystemID: "sys", Timeline: timeline, Flushed: wal.LSN(flushed), Database: "db"}
		for i := 0; i+1 < len(history) && i < 16; i += 2 { // a timeline and where it ended
			srv.History = append(srv.History, Switch{int32(int8(history[i])), wal.LSN(history[i+1]) << 4})
		}
		got, err := Decide("s", r, s, srv)
		want, ok := naiveDecide(r, s, srv)
		if (err == nil) != ok || got != want {
			t.Fatalf("%+v, %v; want %+v, %t\n%s\n%s\n%s", got, err, want, ok, r, s, srv)
		}
		if err != nil {
			return
		}
		if s != nil {
			s.WALStatus = "reserved" // which of the usable ones is no matter from here on
		}
		if why := unsafe(r, s, srv, got); why != "" {
			t.Fatalf("%v at %s: %s\n%s\n%s\n%s", got.Action, got.From, why, r, s, srv)
		}
	})
}

// naiveDecide is the table of the package's documentation, row by row, and nothing else.
func naiveDecide(r *Row, s *Slot, srv Server) (Start, bool) {
	healthy := s != nil && s.Plugin == "pgoutput" && s.Database == srv.Database && !s.Temporary && !s.TwoPhase && s.Invalid == "" &&
		(s.WALStatus == "reserved" || s.WALStatus == "extended" || s.WALStatus == "unreserved") && s.Confirmed != 0 && s.Confirmed <= srv.Flushed
	var switched wal.LSN // where the row's timeline ended, if it is an ancestor
	ancestor := false
	if r != nil {
		for _, h := range srv.History {
			if h.Timeline == r.Timeline && !ancestor {
				switched, ancestor = h.End, true
			}
		}
	}
	system := r != nil && r.SystemID == srv.SystemID
	is := func(state State) bool { return r != nil && r.State == state }
	var confirmed wal.LSN
	if s != nil {
		confirmed = s.Confirmed
	}
	switch {
	case r == nil && s == nil, is(Retired) && s == nil:
		return Start{Action: FirstStart}, true
	case r == nil && healthy:
		return Start{Action: Adopt, From: confirmed}, true
	case is(Creating) && s == nil && system && r.Timeline == srv.Timeline:
		return Start{Action: CreateSlot}, true
	case is(Creating) && healthy && system:
		return Start{Action: GoLive, From: confirmed}, true
	case is(Live) && healthy && system && r.Timeline == srv.Timeline && confirmed <= r.Stored && r.Stored <= srv.Flushed:
		return Start{Action: Resume, From: r.Stored}, true
	case is(Live) && healthy && system && r.Timeline < srv.Timeline && ancestor && confirmed <= switched && r.Stored <= switched && r.Stored <= srv.Flushed:
		if confirmed > r.Stored {
			return Start{Action: Failover, From: confirmed, Presumed: r.Stored}, true
		}
		return Start{Action: Failover, From: r.Stored}, true
	default:
		return Start{}, false
	}
}

// FuzzWorld reads bytes as what happens in a world of servers, relays and people, see worldActs,
// and holds every start against the events that are not in Kafka yet. The first byte of an act
// says which one, the next ones decide what is open in it.
func FuzzWorld(f *testing.F) {
	f.Fuzz(func(t *testing.T, acts []byte) {
		if len(acts) > 1000 {
			return
		}
		w, script := newWorld(), &written{T: t, bytes: acts}
		for len(script.bytes) > 0 {
			act := worldActs[script.between(0, wal.LSN(len(worldActs)-1), "act")]
			script.play(func() { act.act(w, script) })
		}
	})
}

// written is a fate that is written down in bytes; after their end it is always the least.
type written struct {
	*testing.T
	bytes []byte
}

func (w *written) between(least, most wal.LSN, _ string) wal.LSN {
	if len(w.bytes) == 0 || most <= least {
		return least
	}
	b := w.bytes[0]
	w.bytes = w.bytes[1:]
	return least + wal.LSN(b)%(most-least+1)
}

// impossible is what Skip panics with.
type impossible struct{}

func (w *written) Skip(...any) { panic(impossible{}) }

// play lets an act happen, unless it is impossible.
func (w *written) play(act func()) {
	defer func() {
		if what := recover(); what != nil && what != (impossible{}) {
			panic(what)
		}
	}()
	act()
}
