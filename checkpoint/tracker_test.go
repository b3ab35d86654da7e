package checkpoint

import (
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/wal"
	"pgregory.net/rapid"
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

// TestTrackerMemory: neither a long transaction nor a stuck one makes it grow.
func TestTrackerMemory(t *testing.T) {
	tr := NewTracker(0, Limits{Events: 8, Bytes: 1 << 20})
	end := wal.LSN(0)
	tr.Begin(time.Time{})
	stuck, _ := tr.Add(1)
	for i := range 100_000 {
		if ticket, ok := tr.Add(1); ok {
			tr.Ack(ticket, 1, 1)
		} else {
			t.Fatalf("no room at event %d of an open transaction", i)
		}
	}
	end++
	tr.Seal(end)
	for range 100_000 {
		tr.Begin(time.Time{})
		ticket, ok := tr.Add(1)
		if !ok {
			t.Fatal("no room beside one stuck event")
		}
		end++
		tr.Seal(end)
		tr.Ack(ticket, 1, 1)
	}
	if n := cap(tr.list.at); n > 9 {
		t.Errorf("memory for %d transactions, though never more than 2 events were in flight", n)
	}
	if got := tr.Confirmed(); got != 0 {
		t.Errorf("confirmed %s before the stuck event", got)
	}
	tr.Ack(stuck, 1, 1)
	if got := tr.Confirmed(); got != end {
		t.Errorf("confirmed %s, want %s", got, end)
	}
}

// TestTrackerMisuse: what can't be right never moves the position, and is never forgotten.
func TestTrackerMisuse(t *testing.T) {
	// Two transactions: the first has two events of 10 bytes, one of them acknowledged; the
	// second is complete.
	cases := map[string]struct {
		do   func(tr *Tracker, first, second uint64)
		want string
	}{
		"more events than open":   {func(tr *Tracker, a, b uint64) { tr.Ack(a, 2, 10) }, "ack of 2"},
		"more bytes than open":    {func(tr *Tracker, a, b uint64) { tr.Ack(a, 1, 11) }, "11 bytes"},
		"fewer bytes at the end":  {func(tr *Tracker, a, b uint64) { tr.Ack(a, 1, 9) }, "9 bytes"},
		"no events":               {func(tr *Tracker, a, b uint64) { tr.Ack(a, 0, 0) }, "ack of 0"},
		"negative events":         {func(tr *Tracker, a, b uint64) { tr.Ack(a, -1, 0) }, "ack of -1"},
		"negative bytes":          {func(tr *Tracker, a, b uint64) { tr.Ack(a, 1, -10) }, "-10 bytes"},
		"twice":                   {func(tr *Tracker, a, b uint64) { tr.Ack(b, 1, 10) }, "none open"},
		"ticket never given":      {func(tr *Tracker, a, b uint64) { tr.Ack(b+1<<slotBits, 1, 10) }, "none open"},
		"ticket zero":             {func(tr *Tracker, a, b uint64) { tr.Ack(0, 1, 10) }, "none open"},
		"place out of range":      {func(tr *Tracker, a, b uint64) { tr.Ack(b|0xffff, 1, 10) }, "none open"},
		"seal backwards":          {func(tr *Tracker, a, b uint64) { tr.Begin(time.Time{}); tr.Add(1); tr.Seal(299) }, "ends at 0/12B"},
		"empty seal backwards":    {func(tr *Tracker, a, b uint64) { tr.Begin(time.Time{}); tr.Seal(299) }, "ends at 0/12B"},
		"begin inside":            {func(tr *Tracker, a, b uint64) { tr.Begin(time.Time{}); tr.Begin(time.Time{}) }, "inside"},
		"begin after add":         {func(tr *Tracker, a, b uint64) { tr.Add(1); tr.Begin(time.Time{}) }, "inside"},
		"event of negative bytes": {func(tr *Tracker, a, b uint64) { tr.Begin(time.Time{}); tr.Add(-1) }, "negative size"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			tr := NewTracker(100, Limits{Events: 10, Bytes: 100})
			tr.Begin(time.Time{})
			a, _ := tr.Add(10)
			tr.Add(10)
			tr.Seal(200)
			b, _ := tr.Add(10)
			tr.Seal(300)
			tr.Ack(a, 1, 10)
			tr.Ack(b, 1, 10)
			if invariants {
				defer func() {
					if p, _ := recover().(string); !strings.Contains(p, c.want) {
						t.Errorf("panic %q, want one that says %q", p, c.want)
					}
				}()
			}
			c.do(tr, a, b)
			if err := tr.Err(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("err %v, want one that says %q", err, c.want)
			}
			tr.Ack(a, 1, 10)
			tr.Seal(1000)
			tr.Idle(2000)
			if got := tr.Confirmed(); got != 100 {
				t.Errorf("confirmed %d after misuse, want 100", got)
			}
			if _, ok := tr.Add(1); ok {
				t.Error("a frozen tracker admits an event")
			}
			select {
			case <-tr.Room():
			default:
				t.Error("whoever waits for room isn't told that the tracker is frozen")
			}
		})
	}
}

// TestTrackerConcurrent runs the pump against acks from several goroutines under tight
// limits. It hangs if a wake-up is lost, and fails if the position passes what they have
// acknowledged.
func TestTrackerConcurrent(t *testing.T) {
	const txs, workers = 3000, 4
	tr := NewTracker(0, Limits{Events: 5, Bytes: 64})
	type event struct {
		ticket uint64
		bytes  int
	}
	work := make(chan event, 5)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for e := range work {
				tr.Ack(e.ticket, 1, int64(e.bytes))
			}
		})
	}
	watch := make(chan struct{})
	wg.Go(func() {
		var last wal.LSN
		for {
			select {
			case <-watch:
				return
			default:
			}
			if got := tr.Confirmed(); got < last {
				t.Errorf("confirmed went back from %s to %s", last, got)
			} else {
				last = got
			}
			tr.Oldest()
		}
	})
	rnd := rand.New(rand.NewPCG(1, 2))
	deadline := time.After(20 * time.Second)
	for i := range txs {
		tr.Begin(time.Unix(int64(i), 0))
		for range rnd.IntN(12) {
			e := event{bytes: rnd.IntN(70)}
			for ok := false; !ok; {
				if e.ticket, ok = tr.Add(e.bytes); ok {
					break
				}
				select {
				case <-tr.Room():
				case <-deadline:
					t.Fatal("nobody says that there is room")
				}
			}
			work <- e
		}
		tr.Seal(wal.LSN(i + 1))
	}
	close(work)
	close(watch)
	wg.Wait()
	if got := tr.Confirmed(); got != txs {
		t.Errorf("confirmed %s, want %s", got, wal.LSN(txs))
	}
	if n, b := tr.InFlight(); n != 0 || b != 0 {
		t.Errorf("in flight %d events, %d bytes after all were acknowledged", n, b)
	}
}

func TestTrackerUnbounded(t *testing.T) {
	tr := NewTracker(0, Limits{})
	for range 10_000 {
		if _, ok := tr.Add(1 << 30); !ok {
			t.Fatal("a tracker without limits refuses an event")
		}
	}
}

// BenchmarkTracker: one event through Begin, Add, Seal, Ack per iteration.
func BenchmarkTracker(b *testing.B) {
	b.ReportAllocs()
	tr := NewTracker(0, Limits{Events: 1000, Bytes: 1 << 20})
	at := time.Unix(1, 0)
	for i := range b.N {
		tr.Begin(at)
		ticket, _ := tr.Add(100)
		tr.Seal(wal.LSN(i + 1))
		tr.Ack(ticket, 1, 100)
	}
}

// BenchmarkTrackerAdd: Add with room; acks come in batches of 512.
func BenchmarkTrackerAdd(b *testing.B) {
	b.ReportAllocs()
	tr := NewTracker(0, Limits{Events: 1000, Bytes: 1 << 20})
	for i := range b.N {
		ticket, _ := tr.Add(100)
		if i&511 == 511 {
			tr.Ack(ticket, 512, 512*100)
		}
	}
}
