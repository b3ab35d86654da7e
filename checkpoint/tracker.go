package checkpoint

import "github.com/cdc-relay/cdc-relay/wal"

// Limits bound what may be unacknowledged at a time.
type Limits struct {
	Events int
	Bytes  int64
}

// Tracker turns events added in stream order and acknowledged in any order into the position
// that may be confirmed: the end of the last transaction before which everything is
// acknowledged. Add, Seal and Idle are called by one goroutine, everything else by any.
type Tracker struct{}

// NewTracker returns a tracker whose confirmed position is start.
func NewTracker(start wal.LSN, lim Limits) *Tracker { return &Tracker{} }

// Add counts one event of the open transaction. It returns the ticket to acknowledge it with,
// and false when there is no room: the caller then waits on Room and tries again. With
// nothing in flight one event of any size is admitted.
func (t *Tracker) Add(bytes int) (ticket uint64, ok bool) { return 0, false }

// Room is sent to (buffered, one) when an ack made room after an Add that was refused.
func (t *Tracker) Room() <-chan struct{} { return nil }

// Seal says that the open transaction is complete and ends at end (the commit's end LSN,
// exactly). A transaction without events is sealed too.
func (t *Tracker) Seal(end wal.LSN) {}

// Idle says that the server has decoded up to end and no transaction is open: it raises the
// end of the newest sealed transaction, or the confirmed position where none is left.
func (t *Tracker) Idle(end wal.LSN) {}

// Ack settles n events of one ticket, of so many bytes in all.
func (t *Tracker) Ack(ticket uint64, n int, bytes int64) {}

// Confirmed only moves right and never lies inside a transaction.
func (t *Tracker) Confirmed() wal.LSN { return 0 }

// InFlight is what was added and is not acknowledged.
func (t *Tracker) InFlight() (events int, bytes int64) { return 0, 0 }
