package relay

import (
	"time"

	"github.com/cdc-relay/cdc-relay/wal"
)

// Phase says what the relay is doing.
type Phase string

// The phases of a relay's life.
const (
	PhaseStarting  Phase = "starting"  // nothing has been connected to yet
	PhaseWaiting   Phase = "waiting"   // for Postgres or Kafka to be reachable
	PhaseStandby   Phase = "standby"   // another relay holds the slot
	PhaseStreaming Phase = "streaming" // publishing
	PhaseHalted    Phase = "halted"    // a rejected event or a topic holds everything back
	PhaseStopping  Phase = "stopping"  // draining
)

// Status is a snapshot of a relay for people and machines that ask.
type Status struct {
	Phase Phase
	// Ready is true while events that arrive are published. Reason says why not, in a
	// sentence with the object and what to do.
	Ready  bool
	Reason string

	Slot        string
	Publication string

	Confirmed wal.LSN // end of the last transaction that is wholly acknowledged
	Stored    wal.LSN // durable in our own row, and so what Postgres is told
	Received  wal.LSN // greatest position the server has named

	InflightEvents int
	InflightBytes  int64
	// OldestUnconfirmed is the commit time of the oldest transaction that is not yet
	// confirmed; zero when there is none.
	OldestUnconfirmed time.Time
	LastProgress      time.Time // when Confirmed last moved, or was last found complete
	Published         uint64    // events acknowledged since the start
}

// Events are callbacks that observe a relay. Each may be nil. They are called from hot
// paths: they must not block. Any goroutine calls them.
type Events struct {
	// Published: n events of one topic were acknowledged; the age is from the oldest one's
	// commit to the ack.
	Published func(topic string, n int, age time.Duration)
	// PublishError: the topic can't be published to for now.
	PublishError func(topic, kind string)
	// Rejected: an event was refused as it is.
	Rejected func(policy string)
	// Reconnect: a connection was lost and will be tried again; side is postgres, sql or kafka.
	Reconnect func(side string)
	// Ignored: an UPDATE, DELETE or TRUNCATE (or a non-transactional own message, "M") came
	// through the publication.
	Ignored func(op byte)
	// Transaction: one was received whole; bytes of its events.
	Transaction func(events int, bytes int64)
	// CheckpointWrite: the stored position was written.
	CheckpointWrite func()
}
