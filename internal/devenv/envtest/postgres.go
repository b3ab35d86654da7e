package envtest

import (
	"context"
	"crypto/rand"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

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
	all := map[string]string{"fsync": "off", "track_commit_timestamp": "on"}
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
	ctx, cancel := context.WithTimeout(context.Background(), databaseLimit)
	defer cancel()
	url, err := devenv.CreateDatabase(ctx, p.URL(), name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), databaseLimit)
		defer cancel()
		if err := devenv.DropDatabase(ctx, p.URL(), name); err != nil {
			t.Error(err)
		}
	})
	return url
}
