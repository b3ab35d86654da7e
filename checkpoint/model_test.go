package checkpoint

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cdc-relay/cdc-relay/wal"
)

// reference is the tracker as one would write it without a care for memory: every event
// since the start, and every place where the stream was complete.
type reference struct {
	lim      Limits
	start    wal.LSN
	received wal.LSN
	events   []refEvent
	points   []refPoint
	txs      []refTx
	open     bool
	refused  int // size of the event that was refused, -1 while none is
}

type refEvent struct {
	tx, bytes int
	acked     bool
}

// refPoint: everything up to end had been received when there were so many events.
type refPoint struct {
	end    wal.LSN
	events int
}

type refTx struct {
	commit time.Time
	first  int // index of its first event
	point  int // index of the point of its end; -1 while it is open
	ticket uint64
}

// unacked is the index of the first event that isn't acknowledged.
func (r *reference) unacked() int {
	for i, e := range r.events {
		if !e.acked {
			return i
		}
	}
	return len(r.events)
}

func (r *reference) confirmed() (end wal.LSN, events int) {
	end = r.start
	first := r.unacked()
	for _, p := range r.points {
		if p.events <= first {
			end, events = max(end, p.end), p.events
		}
	}
	return end, events
}

func (r *reference) inFlight() (n int, bytes int64) {
	for _, e := range r.events {
		if !e.acked {
			n++
			bytes += int64(e.bytes)
		}
	}
	return n, bytes
}

func (r *reference) fits(bytes int) bool {
	n, b := r.inFlight()
	return n == 0 || n < r.lim.Events && b+int64(bytes) <= r.lim.Bytes
}

func (r *reference) oldest() (time.Time, bool) {
	_, done := r.confirmed()
	for i, x := range r.txs {
		last := i == len(r.txs)-1
		hasEvents := x.first < len(r.events) && r.events[x.first].tx == i
		if hasEvents && x.first >= done || last && r.open {
			return x.commit, true
		}
	}
	return time.Time{}, false
}

// model drives a tracker and its reference with the same steps.
type model struct {
	tr   *Tracker
	ref  reference
	now  time.Time
	last wal.LSN // confirmed before the step
}

func newModel(t *rapid.T) *model {
	lim := Limits{Events: rapid.IntRange(1, 12).Draw(t, "events"), Bytes: int64(rapid.IntRange(1, 60).Draw(t, "bytes"))}
	start := wal.LSN(rapid.IntRange(0, 50).Draw(t, "start"))
	return &model{
		tr:   NewTracker(start, lim),
		ref:  reference{lim: lim, start: start, received: start, refused: -1},
		now:  time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC),
		last: start,
	}
}

func (m *model) begin(t *rapid.T) {
	if m.ref.open {
		t.Skip("open")
	}
	m.now = m.now.Add(time.Second)
	m.tr.Begin(m.now)
	m.ref.open = true
	m.ref.txs = append(m.ref.txs, refTx{commit: m.now, first: len(m.ref.events), point: -1})
}

func (m *model) add(t *rapid.T) {
	if !m.ref.open {
		m.begin(t)
	}
	bytes := rapid.IntRange(0, 80).Draw(t, "size")
	ticket, ok := m.tr.Add(bytes)
	if want := m.ref.fits(bytes); ok != want {
		t.Fatalf("an event of %d bytes was admitted: %v, want %v", bytes, ok, want)
	}
	m.ref.refused = -1
	if !ok {
		m.ref.refused = bytes
		return
	}
	tx := len(m.ref.txs) - 1
	x := &m.ref.txs[tx]
	if x.ticket != 0 && x.ticket != ticket {
		t.Fatalf("one transaction has the tickets %d and %d", x.ticket, ticket)
	}
	for _, before := range m.ref.txs[:tx] {
		if ticket <= before.ticket {
			t.Fatalf("ticket %d comes after %d", ticket, before.ticket)
		}
	}
	x.ticket = ticket
	m.ref.events = append(m.ref.events, refEvent{tx: tx, bytes: bytes})
}

func (m *model) end(t *rapid.T) wal.LSN {
	return m.ref.received + wal.LSN(rapid.IntRange(1, 20).Draw(t, "further"))
}

func (m *model) seal(t *rapid.T) {
	if !m.ref.open {
		m.begin(t)
	}
	end := m.end(t)
	m.tr.Seal(end)
	m.ref.txs[len(m.ref.txs)-1].point = len(m.ref.points)
	m.point(end)
	m.ref.open = false
}

func (m *model) point(end wal.LSN) {
	m.ref.points = append(m.ref.points, refPoint{end, len(m.ref.events)})
	m.ref.received = end
}

func (m *model) idle(t *rapid.T) {
	end := m.end(t)
	if back := wal.LSN(rapid.IntRange(0, 30).Draw(t, "back")); back < end {
		end -= back
	}
	m.tr.Idle(end)
	if !m.ref.open && end > m.ref.received {
		m.point(end)
	}
}

// ack settles some events of one transaction, any of them.
func (m *model) ack(t *rapid.T) {
	byTx := map[int][]int{}
	var txs []int
	for i, e := range m.ref.events {
		if !e.acked {
			if byTx[e.tx] == nil {
				txs = append(txs, e.tx)
			}
			byTx[e.tx] = append(byTx[e.tx], i)
		}
	}
	if len(txs) == 0 {
		t.Skip("nothing in flight")
	}
	tx := rapid.SampledFrom(txs).Draw(t, "tx")
	which := rapid.Permutation(byTx[tx]).Draw(t, "events")[:rapid.IntRange(1, len(byTx[tx])).Draw(t, "n")]
	var bytes int64
	for _, i := range which {
		m.ref.events[i].acked = true
		bytes += int64(m.ref.events[i].bytes)
	}
	m.tr.Ack(m.ref.txs[tx].ticket, len(which), bytes)
	if m.ref.refused >= 0 && m.ref.fits(m.ref.refused) {
		m.ref.refused = -1
		select {
		case <-m.tr.Room():
		default:
			t.Fatal("there is room for the event that was refused, and nobody was told")
		}
	}
}

func (m *model) check(t *rapid.T) {
	want, wantDone := m.ref.confirmed()
	got, done := m.tr.Progress()
	if got != want || int(done) != wantDone || m.tr.Confirmed() != got {
		t.Fatalf("confirmed %d with %d events, want %d with %d", got, done, want, wantDone)
	}
	if got < m.last {
		t.Fatalf("confirmed went back from %d to %d", m.last, got)
	}
	m.last = got
	events, bytes := m.tr.InFlight()
	if wantEvents, wantBytes := m.ref.inFlight(); events != wantEvents || bytes != wantBytes {
		t.Fatalf("in flight %d of %d bytes, want %d of %d", events, bytes, wantEvents, wantBytes)
	}
	if n := m.tr.Added(); n != uint64(len(m.ref.events)) {
		t.Fatalf("added %d, want %d", n, len(m.ref.events))
	}
	at, ok := m.tr.Oldest()
	if wantAt, wantOK := m.ref.oldest(); ok != wantOK || !at.Equal(wantAt) {
		t.Fatalf("oldest %v %v, want %v %v", at, ok, wantAt, wantOK)
	}
	if m.tr.list.len > events+1 {
		t.Fatalf("%d transactions are kept for %d events", m.tr.list.len, events)
	}
	if len(m.tr.list.at) > m.ref.lim.Events+1 {
		t.Fatalf("memory for %d transactions, the limit is %d events", len(m.tr.list.at), m.ref.lim.Events)
	}
	if err := m.tr.Err(); err != nil {
		t.Fatal(err)
	}
}

// TestTrackerModel compares the tracker with the reference after every step. At the end all is
// acknowledged and the stream idle, and the position must be where the stream is.
func TestTrackerModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		t.Repeat(map[string]func(*rapid.T){
			"begin": m.begin, "add": m.add, "add2": m.add, "seal": m.seal,
			"idle": m.idle, "ack": m.ack, "ack2": m.ack, "": m.check,
		})
		for n, _ := m.ref.inFlight(); n > 0; n, _ = m.ref.inFlight() {
			m.ack(t)
			m.check(t)
		}
		if m.ref.open {
			m.seal(t)
		}
		end := m.end(t)
		m.tr.Idle(end)
		if got := m.tr.Confirmed(); got != end {
			t.Fatalf("all is acknowledged and the stream idle at %d, but confirmed is %d", end, got)
		}
	})
}
