package shape

import (
	"time"

	"github.com/cdc-relay/cdc-relay/wal"
)

// The names of the headers that every record has, in their order on the wire.
const (
	HeaderEventID     = "event_id"
	HeaderEventType   = "event_type"
	HeaderDedupeKey   = "dedupe_key"
	HeaderOrderingKey = "ordering_key"
	HeaderPosition    = "position"
)

// ownHeaders is how many of them there are.
const ownHeaders = 5

// reserved says whether a row's own header of this name would pass for one of ours. The two
// that aren't above mark records of a replay and records made from the table.
func reserved(name []byte) bool {
	switch string(name) {
	case HeaderEventID, HeaderEventType, HeaderDedupeKey, HeaderOrderingKey, HeaderPosition, "replayed", "source":
		return true
	}
	return false
}

// Event is one event of the outbox, ready to get a partition. All of it is a function of
// the row, its position and the contract in force. It owns its memory; its slices may share
// it with each other, so nobody writes to them.
type Event struct {
	Position wal.Position
	Topic    string
	// ShardKey decides the partition: the partition key, or the dedupe key where that is
	// NULL. Never nil.
	ShardKey []byte
	// Key is the record's key: the partition key's bytes. nil where it is NULL; empty
	// and nil differ.
	Key []byte
	// Value is the payload exactly as Postgres prints it. nil is a tombstone.
	Value   []byte
	Headers []Header
	// TimestampMs is the record's timestamp, in milliseconds since 1970.
	TimestampMs int64
	// DedupeKey identifies the event for its consumers, and names it in messages.
	DedupeKey string
	// CommitTime of its transaction; measures latency, never part of the record.
	CommitTime time.Time
}

// Header is a record header. A nil Value is a null value.
type Header struct {
	Key   string
	Value []byte
}

// Bytes is the event's size for accounting: what it keeps in memory until its ack, without
// fixed overhead.
func (e *Event) Bytes() int {
	n := len(e.Key) + len(e.Value)
	for i := range e.Headers {
		n += len(e.Headers[i].Key) + len(e.Headers[i].Value)
	}
	return n
}

// RejectError says that a row can never become an event as it is: its column and why. It
// quotes ids and times, and nothing of the payload or the headers.
type RejectError struct {
	Table  string
	Column string
	Cause  string
	Hint   string // what would make such a row an event; may be empty
}

func (e *RejectError) Error() string {
	s := "event of " + e.Table
	if e.Column != "" {
		s += ", column " + e.Column
	}
	s += ": " + e.Cause
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

func (s *Shape) reject(column, cause, hint string) error {
	return &RejectError{Table: s.cfg.Table, Column: column, Cause: cause, Hint: hint}
}
