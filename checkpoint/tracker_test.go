package checkpoint

import (
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/wal"
)

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
