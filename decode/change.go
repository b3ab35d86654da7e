package decode

import (
	"time"

	"github.com/cdc-relay/cdc-relay/wal"
)

// Kind says what a frame meant.
type Kind uint8

// The kinds of a change. None is a frame that only changed the decoder's state
// (Relation, Type, Origin), or a keepalive inside a transaction.
const (
	None    Kind = iota
	Begin        // a transaction begins; Commit and CommitTime are known
	Row          // an insert
	Message      // a logical decoding message
	Commit       // the transaction is complete; End is the position to confirm
	Idle         // a keepalive outside a transaction; End is what the server has decoded
	Ignored      // UPDATE, DELETE or TRUNCATE: Op says which
)

// Change is what one frame meant. Row and Message borrow from the frame: they are valid
// until the next call of Decode or the release of the frame's batch.
type Change struct {
	Kind Kind
	Op   byte // the message's letter: 'I', 'U', 'D', 'T', 'M', ...; 0 for a keepalive
	// Commit is the LSN of the transaction's commit record, on all that lies in a
	// transaction, from Begin to Commit. It is 0 on Idle and on a message that is not
	// transactional, wherever that came.
	Commit     wal.LSN
	End        wal.LSN   // Commit and Idle only
	CommitTime time.Time // of the transaction, in UTC; where Commit is set
	Seq        uint32    // Row, and Message where it counts (Msg.Counts)
	Row        *Tuple    // Row only
	Msg        *Msg      // Message only
}

// Class says what a relation is to the relay.
type Class uint8

// The classes of a relation. A relation starts Unknown, and an insert into an unknown
// relation must be looked up before it is stepped over.
const (
	Unknown Class = iota
	Outbox
	Foreign
)

// Relation is the shape of a table as of the rows that follow it in the stream.
// A new Relation message makes a new value, so a pointer identifies a shape.
type Relation struct {
	ID           uint32
	Schema, Name string // the server sends pg_catalog as an empty Schema
	Columns      []Column
	// Class is set by the caller once it has been looked up. The decoder only carries Outbox
	// over to the next shape of the same OID, while schema and name stay the same.
	Class Class
}

// Column is a column of a relation.
type Column struct {
	Name string
	Type uint32 // OID of the type
	Key  bool   // part of the replica identity
}

// Tuple is an inserted row. Values are in the order of Rel.Columns, one for each.
type Tuple struct {
	Rel    *Relation
	Values []Value
}

// Value is one column's text. A NULL has Null set and nil Text; empty text is not NULL,
// and its Text is not nil.
type Value struct {
	Text []byte
	Null bool
}

// OwnPrefix is the prefix of the logical decoding messages that are meant for the relay.
// It and every prefix that continues it with a dot are its own.
const OwnPrefix = "cdc_relay"

// Msg is a logical decoding message, as pg_logical_emit_message writes it.
type Msg struct {
	Transactional bool
	Own           bool    // its prefix is OwnPrefix, or OwnPrefix and a dot and anything
	LSN           wal.LSN // the first byte after its record; no position rests on it
	Prefix        string
	Content       []byte
}

// Counts says whether the message takes a place in its transaction's sequence, and so has
// a position. It depends on nothing but the message: positions must be the same in every
// reading, whatever the configuration.
func (m *Msg) Counts() bool { return m.Transactional && m.Own }
