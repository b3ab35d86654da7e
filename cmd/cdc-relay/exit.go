package main

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-relay/cdc-relay/internal/relay"
)

// The exit codes. Packages say theirs by a method ExitCode on their errors.
const (
	exitClean      = 0
	exitUnexpected = 1
	exitUsage      = 2
	exitFindings   = 3
)

// usageError is a command line that can't be understood.
type usageError struct{ cause error }

func (e *usageError) Error() string { return "usage: " + e.cause.Error() }

func (e *usageError) Unwrap() error { return e.cause }

func (e *usageError) ExitCode() int { return exitUsage }

func (e *usageError) Hint() string {
	return "cdc-relay --help lists the commands, and each has a --help of its own"
}

// exitCode maps an error to the exit code of the process.
func exitCode(err error) int {
	if err == nil {
		return exitClean
	}
	code := exitUnexpected
	walk(err, func(e error) bool {
		switch e := e.(type) { //nolint:errorlint // walk visits the whole chain
		case *exec.ExitError:
			return false // another program's exit code is not ours
		case interface{ ExitCode() int }:
			if c := e.ExitCode(); c != exitClean {
				code = c
			}
			return true
		case *pgconn.PgError:
			if relay.Refused(e.Code) {
				code = exitUsage
			}
			return true
		case *pgconn.ParseConfigError:
			code = exitUsage
			return true
		}
		return false
	})
	return code
}

// walk visits err and what it wraps, outermost first, until f returns true.
func walk(err error, f func(error) bool) bool {
	if err == nil {
		return false
	}
	if f(err) {
		return true
	}
	switch e := err.(type) { //nolint:errorlint // this is the walk itself
	case interface{ Unwrap() error }:
		return walk(e.Unwrap(), f)
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			if walk(inner, f) {
				return true
			}
		}
	}
	return false
}

// report prints an error once, with what to do about it.
func report(w io.Writer, err error) {
	if err == nil {
		return
	}
	var all interface{ Unwrap() []error }
	list := []error{err}
	if errors.As(err, &all) && err.Error() == errors.Join(all.Unwrap()...).Error() {
		list = all.Unwrap() // nothing but a list: each with its own hint
	}
	for _, e := range list {
		// A message of the server can have several lines; ours is one.
		fmt.Fprintf(w, "cdc-relay: %s\n", strings.ReplaceAll(e.Error(), "\n", "; "))
		if h := hint(e); h != "" {
			fmt.Fprintf(w, "hint: %s\n", h)
		}
	}
}

// hint is the outermost error's advice.
func hint(err error) string {
	var found string
	walk(err, func(e error) bool {
		switch e := e.(type) { //nolint:errorlint // walk visits the whole chain
		case interface{ Hint() string }:
			found = e.Hint()
		case *pgconn.PgError:
			if found = e.Hint; found == "" {
				found = stateHint(e.Code, e.Message)
			}
		}
		return found != ""
	})
	return found
}

// missing are the SQLSTATEs of objects that aren't there, from the appendix "PostgreSQL Error Codes" of the manual.
var missing = map[string]bool{
	"3F000": true, // invalid_schema_name
	"42P01": true, // undefined_table
	"42703": true, // undefined_column
	"42704": true, // undefined_object: publication, role, ...
	"42883": true, // undefined_function
}

// stateHint is our advice where the server has none.
func stateHint(state, message string) string {
	switch {
	case state == "42501" && strings.Contains(strings.ReplaceAll(strings.ToLower(message), " ", ""), "walsender"):
		// "must be superuser or replication role to start walsender" up to 15, "permission
		// denied to start WAL sender" from 16 on.
		return "alter role ... replication, for the user of postgres.url (some hosting services have a role to grant instead)"
	case strings.HasPrefix(state, "28"):
		return "check the user and the password of postgres.url, and pg_hba.conf on the server"
	case state == "3D000":
		return "check the database in postgres.url"
	case state == "42501":
		return "grant the right, or have cdc-relay setup --role grant all that the relay needs"
	case missing[state]:
		return "make it, or have cdc-relay setup make all that the relay needs"
	}
	return ""
}
