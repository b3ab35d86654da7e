package wal

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"
)

// Why a stream could not be had or has ended. Errors of this package wrap one of these where a
// caller has to tell them apart, and the server's *pgconn.PgError where there is one. None
// holds a password.
var (
	// ErrSlotMissing: there is no slot of that name (SQLSTATE 42704).
	ErrSlotMissing = errors.New("replication slot does not exist")
	// ErrSlotLost: the slot was invalidated, so the log it needs is gone (55000, and wal_status lost).
	ErrSlotLost = errors.New("replication slot is lost")
	// ErrPublicationMissing: the publication did not exist at the point of the log that the slot
	// has reached, although it may exist now (42704; from Postgres 18 on a warning with 55000).
	ErrPublicationMissing = errors.New("publication is missing at this point of the log")
	// ErrServerTooOld: the server is older than any that this package was made for.
	ErrServerTooOld = errors.New("server is too old")
	// ErrServerStopping: the server is stopping, starting, or has ended the connection
	// deliberately (57P01, 57P02, 57P03). pg_terminate_backend looks the same.
	ErrServerStopping = errors.New("server has ended the connection or is not up")
	// ErrSilent: nothing was heard from the server for too long while reading.
	ErrSilent = errors.New("server is silent")
	// ErrAhead: a position lies beyond everything that the server has named. Postgres would
	// take it without an error and never send what lies before it.
	ErrAhead = errors.New("position is ahead of the server")
	// ErrNotDrained: the stream was stopped, but the server didn't confirm the end in time, so it
	// may have missed the last status.
	ErrNotDrained = errors.New("server has not confirmed the end of the stream")
)

// SlotActiveError says that another connection streams from the slot (SQLSTATE 55006).
type SlotActiveError struct {
	Slot string
	PID  int32 // of the server process that holds it; 0 where unknown
	Err  error
}

func (e *SlotActiveError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("replication slot %q is in use by another connection: %v", e.Slot, e.Err)
	}
	return fmt.Sprintf("replication slot %q is in use by the server process %d: %v", e.Slot, e.PID, e.Err)
}

func (e *SlotActiveError) Unwrap() error { return e.Err }

// IsSlotActive tells whether another connection streams from the slot, and which server process
// serves it (0 where unknown).
func IsSlotActive(err error) (pid int32, ok bool) {
	var active *SlotActiveError
	if errors.As(err, &active) {
		return active.PID, true
	}
	return 0, false
}

// SQLSTATEs, from the appendix "PostgreSQL Error Codes" of the manual.
const (
	stateProtocol        = "08P01"
	stateUndefinedObject = "42704"
	stateNotPrerequisite = "55000"
	stateObjectInUse     = "55006"
	stateAdminShutdown   = "57P01"
	stateCrashShutdown   = "57P02"
	stateCannotConnect   = "57P03"
)

func sqlState(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// serverError adds what any command or stream can end with.
func serverError(err error) error {
	switch sqlState(err) {
	case stateAdminShutdown, stateCrashShutdown, stateCannotConnect:
		return fmt.Errorf("%w: %w", ErrServerStopping, err)
	}
	return err
}

// openError adds what a connection can be refused with.
func openError(err error) error {
	if sqlState(err) == stateProtocol {
		return fmt.Errorf("%w; replication needs a connection directly to the server, not through a pooler", err)
	}
	return serverError(err)
}

// streamError explains an ErrorResponse in the middle of a stream.
func streamError(publication string, err error) error {
	if sqlState(err) == stateUndefinedObject {
		return publicationError(publication, err)
	}
	return serverError(err)
}

func publicationError(publication string, err error) error {
	return fmt.Errorf("%w: publication %q: %w; a publication must be older than the changes that are read through it:"+
		" name one that existed then, or make a new slot and publish the gap from the table", ErrPublicationMissing, publication, err)
}

// startError explains why START_REPLICATION was refused. slot is what the catalog says now, nil
// where there is none or it could not be read: texts and codes alone don't tell enough.
func startError(name string, slot *SlotInfo, err error) error {
	switch sqlState(err) {
	case stateUndefinedObject:
		return fmt.Errorf("%w: %w", ErrSlotMissing, err)
	case stateObjectInUse:
		active := &SlotActiveError{Slot: name, Err: err}
		if slot != nil {
			active.PID = slot.ActivePID
		}
		if active.PID == 0 { // it was released between the error and the look
			active.PID = pidInText(err)
		}
		return active
	case stateNotPrerequisite:
		if slot != nil && slot.Lost() {
			return fmt.Errorf("%w (wal_status %s): %w", ErrSlotLost, slot.WALStatus, err)
		}
	}
	return serverError(err)
}

var lastNumber = regexp.MustCompile(`(\d+)\D*$`)

// pidInText finds the pid in "replication slot "x" is active for PID n", in any language.
func pidInText(err error) int32 {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return 0
	}
	m := lastNumber.FindStringSubmatch(pg.Message)
	if m == nil {
		return 0
	}
	pid, err := strconv.ParseInt(m[1], 10, 32)
	if err != nil {
		return 0
	}
	return int32(pid)
}
