package sink

import (
	"context"
	"errors"

	"github.com/cdc-relay/cdc-relay/decode/shape"
)

// ErrClosed is wrapped by the error of a Produce or Flush on a closed sink.
var ErrClosed = errors.New("the sink is closed")

// Record is an event with its partition and the ticket under which its ack is counted.
// From Produce on it belongs to the sink until it is handed back to the Handler; nobody
// changes it meanwhile.
type Record struct {
	shape.Event
	Partition int32
	// Ticket is the caller's own mark, handed back untouched.
	Ticket uint64
}

// Sink publishes records. Records of one (topic, partition) are published in the order of
// their Produce calls, and nothing of a partition is sent past a record that is not settled.
//
// The amount in flight is bounded by the caller (checkpoint.Tracker); a sink needs no bound
// of its own.
type Sink interface {
	// Produce hands a record over. One goroutine calls it. It may block while the sink is
	// busy, until ctx ends. An error means that the record was not taken: the sink is
	// closed (ErrClosed) or can't ever go on, or ctx has ended, or the record names a
	// partition that can't exist (a negative one; of others only the other side knows). What
	// happens to a record that was taken is reported through the Handler.
	Produce(ctx context.Context, r *Record) error
	// Flush returns nil when every record taken so far is settled, and ctx's error when
	// ctx ends first; nothing is given up by that. It doesn't wait for what can't come any
	// more: with records unsettled, a closed sink returns ErrClosed, and one that can't go on
	// returns why.
	Flush(ctx context.Context) error
	// Close stops at once: nothing is sent any more. It returns how many records were taken
	// and are not settled; some of them may have been published all the same. It waits for
	// its goroutines, and for what the servers still owe until ctx ends. A second call
	// returns the same.
	Close(ctx context.Context) (unsettled int, err error)
}

// Handler is what a sink reports to. Every record taken is reported by exactly one call of
// Acked, or by a Verdict that settles it, or is counted by Close.
//
// Acked and Topic are called from the sink's own goroutines, may run concurrently for
// different partitions, must not block and must not call the sink.
type Handler interface {
	// Acked says that the records are durable where they belong. Those of one partition
	// come in their Produce order. The slice is the sink's: not kept after the return.
	Acked(rs []*Record)
	// Reject asks what to do with a record that the other side refuses as it is, for
	// cause. All before it in its partition has been reported by then; the partition waits
	// meanwhile, everything else goes on. It may block as long as it likes; ctx ends when the sink closes. The verdict is durable on
	// return. An error is treated as Retry later.
	Reject(ctx context.Context, r *Record, cause error) (Verdict, error)
	// Topic says that a topic as a whole can't be published to (err), or can be again
	// (nil). The sink keeps trying. It is called when the state changes.
	Topic(topic string, err error)
}

// Verdict says what becomes of a rejected record.
type Verdict uint8

const (
	// Retry keeps the record where it is and sends it again, as it was.
	Retry Verdict = iota
	// Settled means that the record has been put away durably elsewhere: the sink drops it,
	// reports nothing more about it, and goes on with what follows.
	Settled
)
