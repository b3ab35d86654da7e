package sql

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// RefusedError says what setup can't do, and what to do about it. Nothing has been changed.
type RefusedError struct {
	Object string
	Cause  string
	Remedy string
	Err    error // what Postgres said, or nil
}

func (e *RefusedError) Error() string { return e.Object + ": " + e.Cause }

func (e *RefusedError) Unwrap() error { return e.Err }

// Hint is what an operator can do.
func (e *RefusedError) Hint() string { return e.Remedy }

// ExitCode is that of a missing object or privilege.
func (e *RefusedError) ExitCode() int { return 2 }

// insufficientPrivilege is from the appendix "PostgreSQL Error Codes" of the manual.
const insufficientPrivilege = "42501"

// explain names the object that a statement was about where Postgres refused it for rights.
func explain(object string, err error) error {
	if err == nil {
		return nil
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == insufficientPrivilege {
		return &RefusedError{
			Object: object,
			Cause:  pg.Message,
			Remedy: "run setup as the owner of the database and of the table, or have a superuser run what setup --print prints",
			Err:    err,
		}
	}
	return fmt.Errorf("%s: %w", object, err)
}
