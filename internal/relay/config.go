package relay

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/cdc-relay/cdc-relay/checkpoint"
	"github.com/cdc-relay/cdc-relay/decode"
	"github.com/cdc-relay/cdc-relay/decode/shape"
	"github.com/cdc-relay/cdc-relay/shard"
	"github.com/cdc-relay/cdc-relay/sink"
	"github.com/cdc-relay/cdc-relay/wal"
)

// Source is one replication connection, from before its START to its end. *wal.Stream is
// the real one.
type Source interface {
	// Start begins streaming at an LSN that was decided on.
	Start(ctx context.Context, start wal.LSN) error
	// Run reads until ctx ends (nil: the final status was sent and the stream drained) or
	// the connection does. It closes out on return.
	Run(ctx context.Context, st wal.Stored, out chan<- *wal.Batch) error
	// Received is the greatest position that the server has named.
	Received() wal.LSN
	Close() error
}

// Origin is where and on what terms a session starts.
type Origin struct {
	Start    wal.LSN
	Lineages wal.Lineages
	Shape    *shape.Shape // of the outbox as it is at the start
}

// Origins connects to Postgres, checks what must hold, and decides where to start. It is
// called for every (re)connect and keeps nothing between two calls.
type Origins interface {
	Open(ctx context.Context) (Source, Origin, error)
}

// Store keeps the stored position in Postgres under this relay's owner token.
type Store interface {
	// Take makes this relay the owner of the slot's row and returns the stored position.
	Take(ctx context.Context) (wal.LSN, error)
	// CheckOwner reads whether this relay still owns the row; checkpoint.ErrOwnerLost when not.
	CheckOwner(ctx context.Context) error
	// Save raises the stored position; checkpoint.ErrOwnerLost when the row has another owner.
	Save(ctx context.Context, stored wal.LSN) error
}

// Catalog answers what a relation in the stream is.
type Catalog interface {
	// Classify returns Unknown for a relation that does not exist any more and that nothing
	// says to ignore.
	Classify(ctx context.Context, id uint32, schema, name string) (decode.Class, error)
}

// Contracts are the terms on which each topic is published to.
type Contracts interface {
	// Pin returns the contracts of a topic. Where there is none it stores the first one, durably
	// before it returns.
	Pin(ctx context.Context, topic string) (shard.Contracts, error)
}

// Config is a relay, assembled. Every field but Events and Now is needed.
type Config struct {
	Slot        string
	Publication string

	Origins   Origins
	Store     Store
	Catalog   Catalog
	Contracts Contracts
	// Sink opens the sink; the relay is its handler. Called once.
	Sink func(sink.Handler) (sink.Sink, error)

	// Check says whether what Kafka holds fits the configuration: asked at the start, again and
	// again until it is answered. An error with an exit code ends the relay.
	Check func(ctx context.Context) error

	// Limits bound what is unacknowledged at a time.
	Limits checkpoint.Limits
	// Drain bounds a stop: reading on to the end of the open transaction, and all acks.
	Drain time.Duration
	// ExitOnHalt ends Run with a *HaltError where the relay would otherwise stay up, holding
	// the slot.
	ExitOnHalt bool

	Log    zerolog.Logger
	Events Events
	Now    func() time.Time
}

const (
	// batchesAhead bounds what has been received and not yet decoded: 4 slabs of 64 KiB.
	batchesAhead = 4
	// recordOverhead is what a record in flight takes beside its bytes: the struct, the slice
	// of headers, and its share of an encoded batch. Counted against Limits.Bytes.
	recordOverhead = 512
	// haltRetry is how often a halted relay tries again and repeats the cause in its log.
	haltRetry = time.Minute
	// storeRed is how long the stored position may fail to be written before the relay says
	// that it isn't ready: publishing goes on, but a crash repeats more and more.
	storeRed = time.Minute
	// saveTimeout bounds one write of the stored position.
	saveTimeout = 5 * time.Second
	// saveEvery is the least time between two writes of the position, saveLook how often one is
	// considered: the first write of a session comes soon, so that a relay that dies again and
	// again gets on all the same.
	saveEvery = time.Second
	saveLook  = 100 * time.Millisecond
	// checkFirst is how long the first session waits for the answer of Check, so that a relay that
	// can't work makes no slot; an outage of Kafka must not keep it from the slot for longer.
	checkFirst = 3 * time.Second
	// askEvery is how often the row's owner is looked at. Postgres' shutdown waits for us at most that
	// long.
	askEvery = 2 * time.Second
	// standbyEvery is how often a slot that another relay holds is tried again.
	standbyEvery = 3 * time.Second
	// finalStatus bounds what a stop or a session's end waits for where waiting is a courtesy.
	finalStatus = 2 * time.Second
)
