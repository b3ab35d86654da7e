package waltest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/cdc-relay/cdc-relay/wal"
	"github.com/cdc-relay/cdc-relay/wal/waltest"
)

// recorder is a test that is supposed to fail.
type recorder struct {
	testing.TB
	errors []string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

var source = waltest.Source{System: wal.System{ID: "7", Timeline: 1, Flushed: 1, Database: "app", Version: 150000}}

// A script that doesn't get what it expects fails the test, and says what it wanted.
func TestScriptsFailTheTest(t *testing.T) {
	query := func(sql string) func(context.Context, *pgconn.PgConn) {
		return func(ctx context.Context, c *pgconn.PgConn) { c.Exec(ctx, sql).Close() }
	}
	start := func(ctx context.Context, c *pgconn.PgConn) {
		c.Frontend().SendQuery(&pgproto3.Query{String: "START_REPLICATION"})
		if err := c.Frontend().Flush(); err != nil {
			t.Error(err)
		}
		if _, err := c.ReceiveMessage(ctx); err != nil {
			t.Error(err)
		}
	}
	leave := func(context.Context, *pgconn.PgConn) {}
	for name, c := range map[string]struct {
		script func(*waltest.Conn)
		client func(context.Context, *pgconn.PgConn)
		says   string
	}{
		"other query":  {func(c *waltest.Conn) { c.Start(source) }, query("SELECT 1"), `no answer to "SELECT 1"`},
		"no query":     {func(c *waltest.Conn) { c.Start(source) }, leave, "the client is gone"},
		"no status":    {func(c *waltest.Conn) { c.Start(source); c.Status() }, start, "wait for a status"},
		"no end":       {func(c *waltest.Conn) { c.Start(source); c.Leave() }, start, "wait for the end of the stream"},
		"all is right": {func(c *waltest.Conn) { c.Start(source); c.Gone() }, start, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &recorder{TB: t}
				server := waltest.Serve(r, c.script)
				conn, err := pgconn.ConnectConfig(t.Context(), server.Config())
				if err != nil {
					t.Fatal(err)
				}
				c.client(t.Context(), conn)
				conn.Close(t.Context())
				server.Wait()
				said := strings.Join(r.errors, "\n")
				if c.says == "" && said != "" || !strings.Contains(said, c.says) {
					t.Errorf("the script says %q, want %q", said, c.says)
				}
			})
		})
	}
}

// Each connection has its script; one too many is refused.
func TestScriptsInOrder(t *testing.T) {
	script := func(name string) func(*waltest.Conn) {
		return func(c *waltest.Conn) {
			c.Accept()
			c.Answer(source, "SELECT name")
			c.Rows([][]string{{name}})
			c.AnswerAll(source)
		}
	}
	for _, serve := range []func(testing.TB, ...func(*waltest.Conn)) *waltest.Server{waltest.Serve, waltest.Listen} {
		server := serve(t, script("first"), script("second"))
		for _, want := range []string{"first", "second"} {
			conn, err := pgconn.ConnectConfig(t.Context(), server.Config())
			if err != nil {
				t.Fatal(err)
			}
			results, err := conn.Exec(t.Context(), "SELECT name").ReadAll()
			if err != nil || string(results[0].Rows[0][0]) != want {
				t.Errorf("got %v, %v; want %s", results, err, want)
			}
			conn.Close(t.Context())
		}
		if _, err := pgconn.ConnectConfig(t.Context(), server.Config()); err == nil {
			t.Error("a connection without a script is accepted")
		}
	}
}
