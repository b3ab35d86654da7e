package envtest

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/internal/devenv"
)

var postgres = shared[*devenv.Postgres]{name: func(p *devenv.Postgres) string {
	return "Postgres " + p.Version() + ", " + p.Origin()
}}

// Postgres returns the server that the tests of this binary share. It must stay up: take
// OwnPostgres to stop one.
func Postgres(t testing.TB) *devenv.Postgres {
	t.Helper()
	p, err := postgres.get(t, func(ctx context.Context) (*devenv.Postgres, error) {
		if u := os.Getenv("TEST_DATABASE_URL"); u != "" {
			return devenv.ConnectPostgres(ctx, u)
		}
		return devenv.StartPostgres(ctx, options(devenv.PostgresOptions{}))
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// OwnPostgres starts a server for this test alone, which may stop and kill it.
func OwnPostgres(t testing.TB, o devenv.PostgresOptions) *devenv.Postgres {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	p, err := devenv.StartPostgres(ctx, options(o))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// options fills in what tests have in common.
func options(o devenv.PostgresOptions) devenv.PostgresOptions {
	if o.Version == "" {
		o.Version = os.Getenv("TEST_POSTGRES_VERSION")
	}
	all := map[string]string{"fsync": "off"}
	maps.Copy(all, o.Settings)
	o.Settings = all
	return o
}

// Database makes a database on the shared server and returns its URL, for a superuser. It
// is dropped after the test, with its slots and whoever is connected.
func Database(t testing.TB) string {
	t.Helper()
	return DatabaseOn(t, Postgres(t))
}

// databaseLimit bounds the making and the dropping of a database.
const databaseLimit = time.Minute

// DatabaseOn is Database on a server of the test's choice. The server must be up again when
// the test ends.
func DatabaseOn(t testing.TB, p *devenv.Postgres) string {
	t.Helper()
	name := "test_" + strings.ToLower(rand.Text()[:12])
	if err := do(p, func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, "CREATE DATABASE "+name)
		return err
	}); err != nil {
		t.Fatalf("make a database for the test: %v", err)
	}
	t.Cleanup(func() {
		if err := do(p, func(ctx context.Context, c *pgx.Conn) error { return drop(ctx, c, name) }); err != nil {
			t.Errorf("drop the database of the test: %v", err)
		}
	})
	u, err := url.Parse(p.URL())
	if err != nil {
		t.Fatalf("TEST_DATABASE_URL is not a URL") // the error would print the password
	}
	u.Path = "/" + name
	return u.String()
}

// do runs fn on a connection of its own to the server's own database.
func do(p *devenv.Postgres, fn func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), databaseLimit)
	defer cancel()
	c, err := pgx.Connect(ctx, p.URL())
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	return fn(ctx, c)
}

// drop removes a database. A slot can't be dropped while a walsender holds it, and holds
// the database itself, so walsenders are ended until none comes back.
func drop(ctx context.Context, c *pgx.Conn, name string) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := c.Exec(ctx, "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = $1 AND active", name); err != nil {
			return err
		}
		_, err := c.Exec(ctx, "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = $1 AND NOT active", name)
		if err == nil {
			_, err = c.Exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)")
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (%w)", err, context.Cause(ctx))
		case <-tick.C:
		}
	}
}
