package sql

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-relay/cdc-relay/internal/devenv"
	"github.com/cdc-relay/cdc-relay/internal/devenv/envtest"
)

func TestMain(m *testing.M) { envtest.Main(m) }

// database is a superuser's connection to an empty database of the test's own.
func database(t *testing.T) (*pgx.Conn, string) {
	t.Helper()
	url := envtest.Database(t)
	return connect(t, url), url
}

// begin is a transaction on a shared database that leaves nothing behind.
func begin(t *testing.T, conn *pgx.Conn) pgx.Tx {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// db is a connection or a transaction.
type db interface {
	Beginner
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func exec(t *testing.T, conn db, sql string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func one[T any](t *testing.T, conn db, sql string, args ...any) T {
	t.Helper()
	var v T
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func setUp(t *testing.T, conn db, o Options) Report {
	t.Helper()
	r, err := Setup(t.Context(), conn, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// refused is the refusal that setup must end with, having changed nothing.
func refused(t *testing.T, conn db, o Options, says string) {
	t.Helper()
	before := catalog(t, conn)
	_, err := Setup(t.Context(), conn, o)
	var r *RefusedError
	if !errors.As(err, &r) {
		t.Fatalf("got %v, want a refusal that says %q", err, says)
	}
	if !strings.Contains(err.Error(), says) || r.Hint() == "" || r.ExitCode() != 2 {
		t.Errorf("refusal %q with hint %q, want one that says %q", err, r.Hint(), says)
	}
	if after := catalog(t, conn); !slices.Equal(before, after) {
		t.Errorf("a refused setup changed the catalog")
	}
}

// catalog is every row of the catalog that setup could touch, with the transaction that wrote it.
func catalog(t *testing.T, conn db) []string {
	t.Helper()
	var all []string
	for _, table := range []string{
		"pg_class", "pg_attribute", "pg_attrdef", "pg_proc", "pg_trigger", "pg_namespace", "pg_constraint",
		"pg_index", "pg_publication", "pg_publication_rel", "pg_roles", "pg_type",
	} {
		sys := "xmin::text || ' ' || "
		if table == "pg_roles" {
			sys = ""
		}
		rows, err := conn.Query(t.Context(), fmt.Sprintf(`select '%s ' || %s t::text from %s t order by 1`, table, sys, table))
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, lines...)
	}
	return all
}

// schemaOf is what setup made, without what differs from one run to the next.
func schemaOf(t *testing.T, conn db) []string {
	t.Helper()
	rows, err := conn.Query(t.Context(), `
		select 'column ' || table_schema || '.' || table_name || '.' || column_name || ' ' || data_type || ' ' || is_nullable || ' ' || coalesce(column_default, '')
			from information_schema.columns where table_schema not in ('pg_catalog', 'information_schema')
		union all select 'constraint ' || conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid) from pg_constraint where connamespace >= 2200
		union all select 'index ' || indexdef from pg_indexes where schemaname not in ('pg_catalog')
		union all select 'trigger ' || pg_get_triggerdef(oid) from pg_trigger where not tgisinternal
		union all select 'function ' || pg_get_functiondef(oid) from pg_proc where pronamespace >= 2200
			and pronamespace <> 'information_schema'::regnamespace
		union all select 'published ' || pubname || ' ' || schemaname || '.' || tablename from pg_publication_tables
		union all select 'publication ' || pubname || ' ' || pubinsert || pubupdate || pubdelete || pubtruncate || puballtables || pubviaroot from pg_publication
		order by 1`)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func TestSetupTwiceChangesNothing(t *testing.T) {
	conn, _ := database(t)
	role := "relay " + fmt.Sprint(os.Getpid())
	exec(t, conn, `create role `+pgx.Identifier{role}.Sanitize()+` login replication`)
	t.Cleanup(func() {
		_, _ = conn.Exec(context.Background(), `drop owned by `+pgx.Identifier{role}.Sanitize()+`; drop role `+pgx.Identifier{role}.Sanitize())
	})
	o := Options{Role: role}
	first := setUp(t, conn, o)
	if want := []string{"schema cdc_relay", "table public.outbox_events", "publication outbox", "rights of role " + role}; !slices.Equal(first.Made, want) {
		t.Errorf("made %q, want %q", first.Made, want)
	}
	if len(first.Warnings) > 0 || len(first.Kept) > 0 {
		t.Errorf("warnings %q, kept %q", first.Warnings, first.Kept)
	}
	before := catalog(t, conn)
	second := setUp(t, conn, o)
	if len(second.Made) > 0 || len(second.Kept) != 4 {
		t.Errorf("the second run made %q and kept %q", second.Made, second.Kept)
	}
	if after := catalog(t, conn); !slices.Equal(before, after) {
		for i := range before {
			if i >= len(after) || before[i] != after[i] {
				t.Fatalf("the second run changed the catalog: %s", before[i])
			}
		}
	}
}

func TestPrintMakesTheSame(t *testing.T) {
	for name, o := range map[string]Options{
		"default":    {},
		"odd names":  {Schema: `re"lay`, Table: `public.Out"Box '\x`, Publication: `it's "mine"\`},
		"long names": {Table: "public." + strings.Repeat("é", 31), Publication: strings.Repeat("p", 63)},
	} {
		t.Run(name, func(t *testing.T) {
			made, _ := database(t)
			setUp(t, made, o)
			printed, _ := database(t)
			script, err := Print(o)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // it may be run again
				exec(t, printed, script)
			}
			a, b := schemaOf(t, made), schemaOf(t, printed)
			if !slices.Equal(a, b) {
				t.Errorf("setup and its script differ:\n%s\n\n%s", strings.Join(a, "\n"), strings.Join(b, "\n"))
			}
			if r := setUp(t, printed, o); len(r.Made) > 0 {
				t.Errorf("after the script, setup made %q", r.Made)
			}
		})
	}
}

func TestPrintForARole(t *testing.T) {
	conn, _ := database(t)
	role := fmt.Sprintf(`rel"ay %d`, os.Getpid())
	quoted := pgx.Identifier{role}.Sanitize()
	exec(t, conn, `create role `+quoted+` login`)
	t.Cleanup(func() { _, _ = conn.Exec(context.Background(), `drop owned by `+quoted+`; drop role `+quoted) })
	r := setUp(t, conn, Options{Role: role})
	if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "alter role "+quoted+" replication") {
		t.Errorf("warnings %q, want one about REPLICATION", r.Warnings)
	}
	script, err := Print(Options{Role: role})
	if err != nil {
		t.Fatal(err)
	}
	exec(t, conn, script)
	if !one[bool](t, conn, `select rolreplication from pg_roles where rolname = $1`, role) {
		t.Error("the script doesn't give REPLICATION")
	}
	if r := setUp(t, conn, Options{Role: role}); len(r.Warnings) > 0 || len(r.Made) > 0 {
		t.Errorf("after the script: warnings %q, made %q", r.Warnings, r.Made)
	}
	exec(t, conn, `set role `+quoted)
	exec(t, conn, `select * from cdc_relay.meta, public.outbox_events, cdc_relay.checkpoint`)
	for _, write := range []string{
		`insert into public.outbox_events (id, entity_id, event_type, payload) values (1, 'a', 'b', '{}')`,
		`update public.outbox_events set status = 'published'`, `delete from public.outbox_events`, `truncate public.outbox_events`,
	} {
		if _, err := conn.Exec(t.Context(), write); err == nil {
			t.Errorf("the relay's role may write the outbox: %s", write)
		}
	}
	if _, err := conn.Exec(t.Context(), `update cdc_relay.meta set version = 2`); err == nil {
		t.Error("the relay's role may write the version")
	}
	exec(t, conn, `reset role`)
}

func TestColumnsOfTheRelay(t *testing.T) {
	conn, _ := database(t)
	setUp(t, conn, Options{})
	for table, want := range relayTables {
		rows, err := conn.Query(t.Context(), `select attname::text from pg_attribute where attrelid = $1::text::regclass and attnum > 0 order by attnum`, "cdc_relay."+table)
		if err != nil {
			t.Fatal(err)
		}
		have, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil || !slices.Equal(have, want) {
			t.Errorf("%s has the columns %q (%v), the list says %q", table, have, err, want)
		}
	}
}

// TestRefused: each has the right message and leaves nothing behind.
func TestRefused(t *testing.T) {
	conn, _ := database(t)
	for name, c := range map[string]struct {
		before string
		o      Options
		says   string
	}{
		"newer version":          {`create schema cdc_relay; create table cdc_relay.meta (version int); insert into cdc_relay.meta values (2)`, Options{}, "version is 2"},
		"tables of another make": {`create schema cdc_relay; create table cdc_relay.checkpoint (id int)`, Options{}, "checkpoint.owner"},
		"meta of another make":   {`create schema cdc_relay; create table cdc_relay.meta (only_row bool primary key, versions int)`, Options{}, "meta.version"},
		"outbox lacks columns":   {`create table outbox_events (id int, payload json)`, Options{}, "lacks the columns entity_id, event_type, created_at"},
		"outbox is a view":       {`create view outbox_events as select 1 as id`, Options{}, "ordinary, logged table"},
		"outbox is unlogged":     {`create unlogged table outbox_events (id int)`, Options{SkipOutbox: true}, "ordinary, logged table"},
		"no outbox":              {``, Options{SkipOutbox: true}, "doesn't exist"},
		"no schema":              {``, Options{Table: "shop.outbox"}, `no schema "shop"`},
		"no role":                {``, Options{Role: "nobody_here"}, "doesn't exist"},
		"publication of updates": {`create publication outbox with (publish = 'update')`, Options{}, "doesn't publish inserts"},
		"publication of others":  {`create table t (id int); create publication outbox for table t`, Options{}, "doesn't hold"},
		"publication of all":     {`create publication outbox for all tables`, Options{}, "own tables"},
	} {
		t.Run(name, func(t *testing.T) {
			tx := begin(t, conn)
			exec(t, tx, c.before)
			refused(t, tx, c.o, c.says)
		})
	}
	t.Run("publication of our tables", func(t *testing.T) {
		tx := begin(t, conn)
		setUp(t, tx, Options{Publication: "p"})
		exec(t, tx, `create publication outbox for table outbox_events, cdc_relay.lineage`)
		refused(t, tx, Options{}, "own tables")
	})
}

func TestBadNames(t *testing.T) {
	for _, o := range []Options{
		{Table: "outbox"},
		{Table: "."},
		{Table: "public."},
		{Table: ".t"},
		{Schema: strings.Repeat("s", 64)},
		{Publication: "a\x00b"},
		{Publication: "$outbox$"},
		{Schema: "public"},
		{Role: "a\nb"},
		{Schema: "\xff"},
	} {
		if s, err := Print(o); err == nil {
			t.Errorf("%+v prints %d bytes", o, len(s))
		}
	}
}

// TestRights: as somebody who isn't the owner, setup says what is missing; as the owner of
// the database it works without being a superuser.
func TestRights(t *testing.T) {
	conn, _ := database(t)
	role := fmt.Sprintf("plain_%d", os.Getpid())
	exec(t, conn, `create role `+role)
	t.Cleanup(func() { _, _ = conn.Exec(context.Background(), `reset role; drop owned by `+role+`; drop role `+role) })
	exec(t, conn, `set role `+role)
	refused(t, conn, Options{}, "permission denied for database")
	exec(t, conn, `reset role`)

	setUp(t, conn, Options{Publication: "p"})
	exec(t, conn, `set role `+role)
	refused(t, conn, Options{}, "permission denied")
	exec(t, conn, `reset role; drop publication p; drop schema cdc_relay cascade; drop table outbox_events; drop function outbox_events_fill_keys`)

	exec(t, conn, fmt.Sprintf(`grant create on database %s to %s; grant create on schema public to %[2]s`, one[string](t, conn, `select current_database()`), role))
	exec(t, conn, `set role `+role)
	if r := setUp(t, conn, Options{}); len(r.Made) != 3 {
		t.Errorf("made %q", r.Made)
	}
	exec(t, conn, `reset role`)
}

// TestKeepsTheApplicationsTable: what exists is not altered, and partitions are published as
// their parent.
func TestKeepsTheApplicationsTable(t *testing.T) {
	conn, _ := database(t)
	exec(t, conn, `create table public.events (id bigint, entity_id text, event_type text, payload json, created_at timestamptz) partition by range (created_at)`)
	before := schemaOf(t, conn)
	r := setUp(t, conn, Options{Table: "public.events", Publication: "events"})
	if !slices.Contains(r.Kept, "table public.events") {
		t.Errorf("kept %q", r.Kept)
	}
	after := schemaOf(t, conn)
	for _, line := range before {
		if !slices.Contains(after, line) {
			t.Errorf("gone: %s", line)
		}
	}
	for _, line := range after {
		if strings.HasPrefix(line, "trigger") {
			t.Errorf("made a %s", line)
		}
	}
	if !one[bool](t, conn, `select pubviaroot and pubinsert and not pubupdate and not pubdelete and not pubtruncate from pg_publication where pubname = 'events'`) {
		t.Error("the publication isn't one of the parent's inserts")
	}
	setUp(t, conn, Options{Table: "public.events", Publication: "events"})
}

func TestWarnsOfAPublicationOfUpdates(t *testing.T) {
	conn, _ := database(t)
	exec(t, conn, `create table t (a int); create publication outbox for table t`)
	r := setUp(t, conn, Options{SkipOutbox: true, Table: "public.t"})
	if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "alter publication") {
		t.Errorf("warnings %q", r.Warnings)
	}
}

// TestApplicationMayUpdate: the publication that setup makes leaves updates and deletes alone,
// also of a table without a primary key.
func TestApplicationMayUpdate(t *testing.T) {
	conn, _ := database(t)
	exec(t, conn, `create table t (a int)`)
	setUp(t, conn, Options{SkipOutbox: true, Table: "public.t"})
	exec(t, conn, `insert into t values (1); update t set a = 2; delete from t; truncate t`)
}

// TestWALLevel: setup works where wal_level is not logical, and says so. The server is its own.
func TestWALLevel(t *testing.T) {
	p := envtest.OwnPostgres(t, devenv.PostgresOptions{Settings: map[string]string{"wal_level": "replica"}})
	conn := connect(t, p.URL())
	r := setUp(t, conn, Options{})
	if len(r.Made) != 3 || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "wal_level is replica") {
		t.Errorf("made %q, warnings %q", r.Made, r.Warnings)
	}
}
