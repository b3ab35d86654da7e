package checkpoint

import (
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/cdc-relay/cdc-relay/wal"
)

// Limits bound what may be unacknowledged at a time. Zero or less is no bound of its own;
// there are never more than MaxEvents.
type Limits struct {
	Events int
	Bytes  int64
}

// slotBits is how much of a ticket names the place of its transaction; the rest is the
// running number, enough for three years of 10,000 transactions a second.
const slotBits = 24

// MaxEvents is the greatest number of events in flight, whatever the limits say.
const MaxEvents = 1<<slotBits - 2

// Tracker turns events added in stream order and acknowledged in any order into the position
// that may be confirmed: the end of the last transaction before which everything is
// acknowledged. Begin, Add, Seal and Idle are called by one goroutine, everything else by any.
//
// Its memory is bounded by the events in flight, never by the size of a transaction nor by
// what flows past a stuck one: a complete transaction behind an incomplete one lives on only
// as the greater end of its predecessor.
//
// Misuse (more acknowledged than was added, an unknown ticket, a Seal that goes backwards, a
// Begin inside a transaction) means that the counts can't be trusted any more. It panics in
// builds with -race or the tag invariants. Elsewhere it freezes the tracker: the confirmed
// position never moves again, Add refuses, Room is signalled and Err says why.
type Tracker struct {
	lim  Limits
	room chan struct{}

	mu        sync.Mutex
	confirmed wal.LSN
	received  wal.LSN // greatest end known; the ends of sealed transactions never go below it
	added     uint64  // events since the start
	done      uint64  // events of the confirmed transactions
	events    int
	bytes     int64
	waiting   int  // size of the event that was refused, -1 while none waits
	begun     bool // between Begin (or the first Add) and Seal
	commit    time.Time
	err       error

	list txns
	tail bool // the newest entry of the list is the open transaction
}

// NewTracker returns a tracker whose confirmed position is start.
func NewTracker(start wal.LSN, lim Limits) *Tracker {
	if lim.Events <= 0 || lim.Events > MaxEvents {
		lim.Events = MaxEvents
	}
	if lim.Bytes <= 0 {
		lim.Bytes = math.MaxInt64
	}
	return &Tracker{lim: lim, room: make(chan struct{}, 1), confirmed: start, received: start, waiting: -1}
}

// Begin says that a transaction starts which was committed at commit. Idle is ignored from
// here to its Seal.
func (t *Tracker) Begin(commit time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return
	}
	if t.begun {
		t.misuse("a transaction begins inside another")
		return
	}
	t.begun, t.commit = true, commit
}

// Add counts one event of the open transaction (and opens one whose commit time is unknown
// where Begin wasn't called). It returns the ticket to acknowledge it with, the same for all
// events of a transaction and greater than those before; and false when there is no room:
// the caller then waits on Room, looks at Err and tries again. With nothing in flight one
// event of any size is admitted.
func (t *Tracker) Add(bytes int) (ticket uint64, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return 0, false
	}
	if bytes < 0 {
		t.misuse("an event of negative size is added")
		return 0, false
	}
	if !t.fits(bytes) {
		t.waiting = bytes
		return 0, false
	}
	t.waiting = -1
	if !t.tail {
		t.list.push(t.commit)
		t.begun, t.tail = true, true
	}
	x := t.list.last()
	x.open++
	x.openBytes += int64(bytes)
	x.events++
	t.added++
	t.events++
	t.bytes += int64(bytes)
	return x.ticket, true
}

func (t *Tracker) fits(bytes int) bool {
	if t.events == 0 {
		return true
	}
	return t.events < t.lim.Events && int64(bytes) <= t.lim.Bytes-t.bytes
}

// Room is sent to (buffered, one) when an ack made room after an Add that was refused. A
// receive is a reason to try again, not a promise.
func (t *Tracker) Room() <-chan struct{} { return t.room }

// Seal says that the open transaction is complete and ends at end (the commit's end LSN,
// exactly). A transaction without events is sealed too: it raises the end of the one before.
func (t *Tracker) Seal(end wal.LSN) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return
	}
	if end < t.received {
		t.misuse(fmt.Sprintf("a transaction ends at %s, below %s that was received before", end, t.received))
		return
	}
	if !t.tail {
		t.begun, t.commit = false, time.Time{}
		t.raise(end)
		return
	}
	x := t.list.last()
	x.end, x.sealed = end, true
	t.received = end
	t.begun, t.tail, t.commit = false, false, time.Time{}
	if x.open == 0 {
		t.settle(t.list.tail)
	}
}

// Idle says that the server has decoded up to end and no transaction is open: it raises the
// end of the newest sealed transaction, or the confirmed position where none is left. Inside
// a transaction, and below what is known, it does nothing.
func (t *Tracker) Idle(end wal.LSN) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil || t.begun {
		return
	}
	t.raise(end)
}

// raise moves the end of what has been received whole. No transaction is open.
func (t *Tracker) raise(end wal.LSN) {
	if end <= t.received {
		return
	}
	t.received = end
	if t.list.len == 0 {
		t.confirmed = end
		return
	}
	t.list.last().end = end
}

// Ack settles n events of one ticket, of so many bytes in all.
func (t *Tracker) Ack(ticket uint64, n int, bytes int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return
	}
	i, known := t.list.find(ticket)
	if !known {
		t.misuse(fmt.Sprintf("ack of %d events under ticket %d, which has none open", n, ticket))
		return
	}
	x := &t.list.at[i]
	if n <= 0 || bytes < 0 || n > x.open || bytes > x.openBytes || (n == x.open && bytes != x.openBytes) {
		t.misuse(fmt.Sprintf("ack of %d events with %d bytes under ticket %d, of which %d with %d are open",
			n, bytes, ticket, x.open, x.openBytes))
		return
	}
	x.open -= n
	x.openBytes -= bytes
	t.events -= n
	t.bytes -= bytes
	if x.open == 0 && x.sealed {
		t.settle(i)
	}
	if t.waiting >= 0 && t.fits(t.waiting) {
		t.signal()
	}
}

// settle takes a transaction out of the list that is sealed and wholly acknowledged. At the
// head it is confirmed. Elsewhere it is confirmed with its predecessor, so that one gets its
// end.
func (t *Tracker) settle(i uint32) {
	x := t.list.at[i]
	if i == t.list.head {
		t.confirmed = x.end
		t.done += x.events
	} else {
		p := &t.list.at[x.prev]
		p.end = x.end
		p.events += x.events
	}
	t.list.remove(i)
}

func (t *Tracker) signal() {
	t.waiting = -1
	select {
	case t.room <- struct{}{}:
	default: // a signal is there already; its receiver will try again
	}
}

// Confirmed only moves right and never lies inside a transaction.
func (t *Tracker) Confirmed() wal.LSN {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.confirmed
}

// Progress is the confirmed position with the number of events before it that were added to
// this tracker, both of one moment.
func (t *Tracker) Progress() (confirmed wal.LSN, events uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.confirmed, t.done
}

// Added is the number of events that were added to this tracker.
func (t *Tracker) Added() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.added
}

// InFlight is what was added and is not acknowledged.
func (t *Tracker) InFlight() (events int, bytes int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.events, t.bytes
}

// Oldest is the commit time of the oldest transaction that is not yet confirmed, and false
// when there is none or its time isn't known.
func (t *Tracker) Oldest() (commit time.Time, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	commit = t.commit
	if t.list.len > 0 {
		commit = t.list.at[t.list.head].commit
	}
	return commit, !commit.IsZero()
}

// Err says what misuse froze the tracker, and is nil otherwise.
func (t *Tracker) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

func (t *Tracker) misuse(what string) {
	if invariants {
		panic("checkpoint: " + what)
	}
	t.err = fmt.Errorf("count of what is published is broken, so nothing more is confirmed: %s", what)
	t.signal()
}
