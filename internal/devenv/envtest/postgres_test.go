package envtest

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/cdc-relay/cdc-relay/internal/devenv"
)

func TestMain(m *testing.M) { Main(m) }

func TestDatabaseIsDroppedWithItsSlots(t *testing.T) {
	var url string
	t.Run("user", func(t *testing.T) {
		url = Database(t)
		c, err := pgx.Connect(t.Context(), url) // stays open: the database goes all the same
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Exec(t.Context(), "select pg_create_logical_replication_slot('envtest_' || current_database(), 'pgoutput')"); err != nil {
			t.Fatal(err)
		}
		config, err := pgx.ParseConfig(url)
		if err != nil {
			t.Fatal(err)
		}
		config.RuntimeParams["replication"] = "database"
		w, err := pgx.ConnectConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		// A walsender that holds the slot.
		w.PgConn().Frontend().Send(startReplication(c.Config().Database))
		if err := w.PgConn().Frontend().Flush(); err != nil {
			t.Fatal(err)
		}
		if _, err := w.PgConn().ReceiveMessage(t.Context()); err != nil {
			t.Fatal(err)
		}
		var active bool
		if err := c.QueryRow(t.Context(), "select active from pg_replication_slots where database = current_database()").Scan(&active); err != nil || !active {
			t.Fatalf("active %v, %v", active, err)
		}
	})
	if c, err := pgx.Connect(t.Context(), url); err == nil {
		_ = c.Close(t.Context())
		t.Fatal("the database is still there")
	}
	c, err := pgx.Connect(t.Context(), Postgres(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	var slots int
	if err := c.QueryRow(t.Context(), "select count(*) from pg_replication_slots where slot_name like 'envtest_%'").Scan(&slots); err != nil || slots != 0 {
		t.Fatalf("%d slots left, %v", slots, err)
	}
}

func TestOwnPostgresIsAnother(t *testing.T) {
	p := OwnPostgres(t, devenv.PostgresOptions{})
	if p.URL() == Postgres(t).URL() {
		t.Fatal("it is the shared one")
	}
	DatabaseOn(t, p)
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestConnectedServerIsLeftAlone(t *testing.T) {
	p, err := devenv.ConnectPostgres(t.Context(), Postgres(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	if p.Version() != Postgres(t).Version() {
		t.Errorf("version %q", p.Version())
	}
	for name, err := range map[string]error{"Stop": p.Stop(t.Context(), devenv.Immediate), "Kill": p.Kill(), "Start": p.Start(t.Context())} {
		if err == nil {
			t.Errorf("%s of a server that isn't ours was accepted", name)
		}
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	DatabaseOn(t, p)
}

func startReplication(database string) *pgproto3.Query {
	return &pgproto3.Query{String: "START_REPLICATION SLOT envtest_" + database + " LOGICAL 0/0 (proto_version '1', publication_names 'none')"}
}
