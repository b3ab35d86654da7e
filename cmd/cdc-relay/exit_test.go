package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-relay/cdc-relay/internal/admin"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/demo"
	"github.com/cdc-relay/cdc-relay/internal/relay"
	"github.com/cdc-relay/cdc-relay/sql"
)

// coded is an error of some package, with an exit code and advice.
type coded struct {
	code int
	hint string
}

func (e *coded) Error() string { return fmt.Sprintf("code %d", e.code) }
func (e *coded) ExitCode() int { return e.code }
func (e *coded) Hint() string  { return e.hint }

func pgError(code string) error { return &pgconn.PgError{Severity: "ERROR", Code: code, Message: "m"} }

func TestExitCode(t *testing.T) {
	_, parse := pgconn.ParseConfig("postgres://h:port/db")
	child := exec.Command("/bin/sh", "-c", "exit 4").Run()
	for name, row := range map[string]struct {
		err  error
		want int
	}{
		"nothing":               {nil, 0},
		"anything":              {errors.New("x"), 1},
		"cancelled":             {context.Canceled, 1},
		"usage":                 {&usageError{cause: errors.New("x")}, 2},
		"its own code":          {&coded{code: 3}, 3},
		"its own code, wrapped": {fmt.Errorf("a: %w", fmt.Errorf("b: %w", &coded{code: 4})), 4},
		"its own code, joined":  {errors.Join(errors.New("x"), &coded{code: 5}), 5},
		"the outermost code":    {fmt.Errorf("a: %w", errors.Join(&coded{code: 5}, &coded{code: 2})), 5},
		"an error is never 0":   {&coded{code: 0}, 1},
		"a child's code":        {fmt.Errorf("child: %w", child), 1},
		"a child's, then ours":  {errors.Join(child, &coded{code: 3}), 3},
		"configuration":         {&config.Error{Problems: []*config.Problem{{Key: "k"}}}, 2},
		"password":              {&config.SecretError{Key: "k", Cause: errors.New("x")}, 2},
		"address in use":        {&admin.AddressError{}, 2},
		"setup refused":         {fmt.Errorf("set up: %w", &sql.RefusedError{}), 2},
		"demo's usage":          {&demo.UsageError{}, 2},
		"demo not clean":        {fmt.Errorf("demo: %w", &demo.NotCleanError{}), 3},
		"left unacknowledged":   {fmt.Errorf("run: %w", &relay.UnackedError{Events: 3}), 1},
		"halted":                {&relay.HaltError{Cause: errors.New("too large")}, 5},
		"halted by the server":  {&relay.HaltError{Cause: pgError("42501")}, 5},
		"slot lost":             {&relay.StartError{}, 4},
		"wrong password":        {fmt.Errorf("connect: %w", pgError("28P01")), 2},
		"no pg_hba line":        {pgError("28000"), 2},
		"no such database":      {pgError("3D000"), 2},
		"no such schema":        {pgError("3F000"), 2},
		"no privilege":          {pgError("42501"), 2},
		"no such table":         {pgError("42P01"), 2},
		"no such column":        {pgError("42703"), 2},
		"no such publication":   {pgError("42704"), 2},
		"no such function":      {pgError("42883"), 2},
		"too many connections":  {pgError("53300"), 1},
		"admin shutdown":        {pgError("57P01"), 1},
		"serialization":         {pgError("40001"), 1},
		"bad connection string": {parse, 2},
		"bad string, wrapped":   {fmt.Errorf("connect: %w", parse), 2},
	} {
		if got := exitCode(row.err); got != row.want {
			t.Errorf("%s: exit code %d, want %d (%v)", name, got, row.want, row.err)
		}
	}
}

func TestReport(t *testing.T) {
	server := &pgconn.PgError{Severity: "ERROR", Code: "42501", Message: "permission denied", Hint: "ask the owner"}
	problems := &config.Error{Problems: []*config.Problem{
		{Key: "a", Cause: "is bad", Remedy: "mend it"}, {Key: "b", Origin: "x.yaml:3", Cause: "is worse"},
	}}
	for name, row := range map[string]struct {
		err  error
		want string
	}{
		"nothing":          {nil, ""},
		"plain":            {errors.New("connect: no"), "cdc-relay: connect: no\n"},
		"with advice":      {fmt.Errorf("run: %w", &coded{4, "do this"}), "cdc-relay: run: code 4\nhint: do this\n"},
		"outermost advice": {fmt.Errorf("%w, %w", &coded{4, "do this"}, &coded{4, "or that"}), "cdc-relay: code 4, code 4\nhint: do this\n"},
		"first that has":   {fmt.Errorf("%w, %w", &coded{4, ""}, &coded{4, "or that"}), "cdc-relay: code 4, code 4\nhint: or that\n"},
		"several lines":    {errors.New("a\nb"), "cdc-relay: a; b\n"},
		"the server's":     {fmt.Errorf("grant: %w", server), "cdc-relay: grant: ERROR: permission denied (SQLSTATE 42501)\nhint: ask the owner\n"},
		"ours for it":      {pgError("28P01"), "cdc-relay: ERROR: m (SQLSTATE 28P01)\nhint: check the user and the password of postgres.url, and pg_hba.conf on the server\n"},
		"none for it":      {pgError("57P01"), "cdc-relay: ERROR: m (SQLSTATE 57P01)\n"},
		"a list": {problems, "cdc-relay: configuration: a: is bad\nhint: mend it\n" +
			"cdc-relay: configuration: b (x.yaml:3): is worse\n"},
		"two, joined": {errors.Join(errors.New("stop"), &coded{1, "wait"}), "cdc-relay: stop\ncdc-relay: code 1\nhint: wait\n"},
		"a wrapped list": {
			fmt.Errorf("load: %w", problems),
			"cdc-relay: load: configuration: a: is bad; configuration: b (x.yaml:3): is worse\nhint: mend it\n",
		},
	} {
		var b bytes.Buffer
		report(&b, row.err)
		if b.String() != row.want {
			t.Errorf("%s:\n got %q\nwant %q", name, b.String(), row.want)
		}
	}
}

func TestHintOfEachState(t *testing.T) {
	for _, message := range []string{"must be superuser or replication role to start walsender", "permission denied to start WAL sender"} {
		if got := hint(&pgconn.PgError{Code: "42501", Message: message}); !strings.HasPrefix(got, "alter role ... replication") {
			t.Errorf("%s: hint %q", message, got)
		}
	}
	for _, state := range []string{"28000", "28P01", "3D000", "3F000", "42501", "42P01", "42703", "42704", "42883"} {
		if hint(pgError(state)) == "" {
			t.Errorf("%s: what to do isn't said", state)
		}
	}
}
