package relay

import (
	"errors"
	"fmt"

	"github.com/cdc-relay/cdc-relay/decode"
	"github.com/cdc-relay/cdc-relay/wal"
)

// haltHint is what an operator can do about a halt.
const haltHint = "where Kafka refuses the record, raise the limit that it names: it is tried again every minute; " +
	"a row can't be changed any more: docs/GUARANTEES.md, \"An event that can't be published\", tells the way past it"

// HaltError says that the relay gave up because an event can't be published and nothing may
// pass it.
type HaltError struct {
	Position wal.Position
	Cause    error
}

func (e *HaltError) Error() string {
	return fmt.Sprintf("halted at position %s: %v", e.Position, e.Cause)
}

func (e *HaltError) Unwrap() error { return e.Cause }

// Hint is what an operator can do.
func (e *HaltError) Hint() string {
	return haltHint
}

// ExitCode is that of a halt under --exit-on-halt.
func (e *HaltError) ExitCode() int { return 5 }

// UnackedError says that a stop had to leave events behind. They will be published again.
type UnackedError struct {
	Events int
	From   wal.LSN
	Cause  error
}

func (e *UnackedError) Error() string {
	s := fmt.Sprintf("stopped; at most %d events from %s on will repeat", e.Events, e.From)
	if e.Events == 0 {
		s = fmt.Sprintf("stopped within a transaction, at %s; no event will repeat", e.From)
	}
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	return s
}

func (e *UnackedError) Unwrap() error { return e.Cause }

// Hint is what an operator can do.
func (e *UnackedError) Hint() string {
	if errors.Is(e.Cause, errHalted) {
		return haltHint
	}
	return "nothing is lost; raise shutdown.drain where Kafka needs longer"
}

// ExitCode is that of unacknowledged events left.
func (e *UnackedError) ExitCode() int { return 1 }

// StartError says that the stored position, as returned with the owner token, lies before the
// start: streaming from there would skip events.
type StartError struct {
	Slot          string
	Start, Stored wal.LSN
}

func (e *StartError) Error() string {
	return fmt.Sprintf("start on slot %q at %s: the stored position is %s, so this start would skip what lies between", e.Slot, e.Start, e.Stored)
}

// ExitCode is that of a slot whose position can't be trusted.
func (e *StartError) ExitCode() int { return 4 }

// PublicationError says that the slot's stored position belongs to another publication: what that one
// sends and this one doesn't would be stepped over.
type PublicationError struct{ Slot, Stored, Wanted string }

func (e *PublicationError) Error() string {
	return fmt.Sprintf("start on slot %q: its position was stored for publication %q, not %q", e.Slot, e.Stored, e.Wanted)
}

// Hint is what an operator can do.
func (e *PublicationError) Hint() string {
	return "go back to that publication, or name another slot (slot.name) for this one"
}

// ExitCode is that of a configuration that can't be followed.
func (e *PublicationError) ExitCode() int { return 2 }

// goneError says that rows came of a relation that can't be judged: it was dropped, or has left the
// publication, and may have been a partition of the outbox.
type goneError struct{ rel decode.Relation }

func (e *goneError) Error() string {
	return fmt.Sprintf("insert into %s.%s (oid %d), which is no table of the publication any more, so it can't be told whether it was a partition of the outbox",
		e.rel.Schema, e.rel.Name, e.rel.ID)
}

// Hint is what an operator can do.
func (e *goneError) Hint() string {
	return "name it in outbox.ignore_tables to step over its rows"
}
