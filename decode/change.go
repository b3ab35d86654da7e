package decode

import (
	"time"

	"github.com/cdc-relay/cdc-relay/wal"
)

// Kind says what a frame meant.
type Kind uint8

// The kinds of a change. None is a frame that only changed the decoder's state
// (Relation, Type, Origin) or that is counted and otherwise ignored.
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
	Kind       Kind
	Op         byte // the message's letter: 'I', 'U', 'D', 'T', 'M', ...
	Commit     wal.LSN
	End        wal.LSN   // Commit and Idle only
	CommitTime time.Time // of the transaction
	Seq        uint32    // Row, and Message where it counts
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
	Schema, Name string
	Columns      []Column
	Class        Class // set by the caller once it has been looked up; the decoder only carries it
}

// Column is a column of a relation.
type Column struct {
	Name string
	Type uint32 // OID of the type
	Key  bool   // part of the replica identity
}

// Tuple is an inserted row. Values are in the order of Rel.Columns.
type Tuple struct {
	Rel    *Relation
	Values []Value
}

// Value is one column's text. A NULL has Null set and no text; empty text is not NULL.
type Value struct {
	Text []byte
	Null bool
}

// Msg is a logical decoding message.
type Msg struct {
	Transactional bool
	Own           bool // its prefix is cdc_relay or cdc_relay.*, so a transactional one counts in Seq
	LSN           wal.LSN
	Prefix        string
	Content       []byte
}
