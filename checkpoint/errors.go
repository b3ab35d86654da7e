package checkpoint

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

var (
	// ErrOwnerLost says that another relay owns the slot's row. This one must publish nothing more.
	ErrOwnerLost = errors.New("another relay owns the slot")
	// ErrChanged says that the slot's row isn't what it was when the start was decided. Decide again.
	ErrChanged = errors.New("the slot's row has changed meanwhile")
)

// SetupError says that the relay's tables aren't there as this version needs them, or that
// its role may not use them.
type SetupError struct {
	Cause  string // with the object
	Remedy string
	Err    error // what Postgres said, or nil
}

func (e *SetupError) Error() string { return e.Cause }

func (e *SetupError) Unwrap() error { return e.Err }

// Hint is what an operator can do.
func (e *SetupError) Hint() string { return e.Remedy }

// ExitCode is that of a missing object or privilege.
func (e *SetupError) ExitCode() int { return 2 }

// SQLSTATEs, from the appendix "PostgreSQL Error Codes" of the manual.
const (
	insufficientPrivilege = "42501"
	undefinedTable        = "42P01"
	undefinedColumn       = "42703"
	invalidSchemaName     = "3F000"
)

const remedySetup = "run cdc-relay setup, or have the DBA run what cdc-relay setup --print prints"

// explain says what a statement was about, and what is to be done where its table or a right
// is missing.
func explain(what string, grant string, err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		cause := what + ": " + pg.Message
		switch pg.Code {
		case undefinedTable, undefinedColumn, invalidSchemaName:
			return &SetupError{Cause: cause, Remedy: remedySetup, Err: err}
		case insufficientPrivilege:
			return &SetupError{Cause: cause, Remedy: grant + " (cdc-relay setup --role does all of it)", Err: err}
		}
	}
	return fmt.Errorf("%s: %w", what, err)
}
