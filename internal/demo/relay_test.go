package demo

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/internal/devenv"
	"github.com/cdc-relay/cdc-relay/internal/devenv/envtest"
	"github.com/cdc-relay/cdc-relay/sql"
)

// TestUnconfirmed counts at the border: two transactions that commit back to back, so that
// the end of the one is the commit position of the other.
func TestUnconfirmed(t *testing.T) {
	url := envtest.Database(t)
	connect := func() *pgx.Conn {
		c, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close(t.Context()) })
		return c
	}
	do := func(c *pgx.Conn, query string, args ...any) {
		t.Helper()
		if _, err := c.Exec(t.Context(), query, args...); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
	conn, a, b := connect(), connect(), connect()
	if _, err := sql.Setup(t.Context(), conn, sql.Options{}); err != nil {
		t.Fatal(err)
	}
	name := "demo_" + strings.ToLower(filepath.Base(url)[5:13])
	do(conn, `SELECT pg_create_logical_replication_slot($1, 'pgoutput')`, name)
	const insert = `INSERT INTO outbox_events (entity_id, event_type, payload) SELECT 'a', 'b', '{}' FROM generate_series(1, `
	do(a, "BEGIN; "+insert+"2)")
	do(b, "BEGIN; "+insert+"3)")
	do(a, "COMMIT")
	do(b, "COMMIT")
	do(conn, "BEGIN; "+insert+"7); ROLLBACK")
	before, err := position(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	do(conn, insert+"11)") // after the kill

	var ends []string // of the transactions a and b
	rows, err := conn.Query(t.Context(), `SELECT lsn::text FROM pg_logical_slot_peek_binary_changes($1, NULL, NULL, 'proto_version', '1', 'publication_names', 'outbox') WHERE get_byte(data, 0) = ascii('C')`, name)
	if err == nil {
		ends, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil || len(ends) != 3 {
		t.Fatalf("ends %v, %v", ends, err)
	}
	for _, c := range []struct {
		stored string
		want   int
	}{{"", 5}, {"0/0", 5}, {ends[0], 3}, {ends[1], 0}} {
		if c.stored != "" {
			do(conn, `INSERT INTO cdc_relay.checkpoint (slot, state, system_id, timeline, stored, publication) VALUES ($1, 'live', '', 1, $2::text::pg_lsn, 'outbox')
				ON CONFLICT (slot) DO UPDATE SET stored = excluded.stored`, name, c.stored)
		}
		n, stored, err := unconfirmed(t.Context(), conn, name, before)
		if err != nil || n != c.want || (c.stored != "" && stored != c.stored) {
			t.Errorf("stored %q: %d events, want %d (stored %s, %v)", c.stored, n, c.want, stored, err)
		}
	}
}

// TestRelayIsNotConfiguredByOurEnvironment: it may name production.
func TestRelayIsNotConfiguredByOurEnvironment(t *testing.T) {
	for _, name := range []string{"DATABASE_URL", "KAFKA_BROKERS", "PARTITION_COUNT", "CDC_RELAY_CONFIG", "PGHOST", "PGPASSWORD"} {
		t.Setenv(name, "production")
	}
	if env := inherited(); slices.ContainsFunc(env, func(v string) bool { return strings.Contains(v, "production") }) {
		t.Errorf("%q", env)
	}
	if !slices.Contains(inherited(), "PATH="+os.Getenv("PATH")) {
		t.Error("the rest is not passed on")
	}
}

// TestStopThatFails: a relay that is asked to stop and doesn't do so cleanly.
func TestStopThatFails(t *testing.T) {
	folder, err := devenv.NewFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = folder.Remove() })
	exe := filepath.Join(t.TempDir(), "relay")
	script := "#!/bin/sh\ntrap 'echo last words; exit 1' TERM\necho ready >ready\nwhile :; do /bin/sleep 0.01; done\n"
	if err := os.WriteFile(exe, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	r := &relay{exe: exe, env: &environment{folder: folder}}
	if err := r.start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.kill() }()
	p := &play{relay: r, reader: &follower{}, o: Options{stall: stallLimit}}
	if err := p.await(t.Context(), nil, func() (bool, error) {
		_, err := os.Stat(filepath.Join(folder.Path(), "ready"))
		return err == nil, nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := r.stop(t.Context()); err == nil || !strings.Contains(err.Error(), "exit code 1") || !strings.Contains(err.Error(), "last words") {
		t.Errorf("stop returned %v", err)
	}
}
