package catalog

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/decode"
	"github.com/cdc-relay/cdc-relay/internal/devenv"
	"github.com/cdc-relay/cdc-relay/internal/devenv/envtest"
)

func TestMain(m *testing.M) { envtest.Main(m) }

// lender is a plain connection.
type lender struct{ *pgx.Conn }

func (l lender) Do(ctx context.Context, fn func(context.Context, *pgx.Conn) error) error {
	return fn(ctx, l.Conn)
}

func open(t *testing.T) (*Catalog, lender) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), envtest.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	l := lender{conn}
	return New(l, "cdc_relay"), l
}

func (l lender) exec(t *testing.T, sql string) {
	t.Helper()
	if _, err := l.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func (l lender) oid(t *testing.T, table string) uint32 {
	t.Helper()
	var oid uint32
	if err := l.QueryRow(t.Context(), `select $1::text::regclass::oid`, table).Scan(&oid); err != nil {
		t.Fatal(err)
	}
	return oid
}

func (l lender) since15(t *testing.T) {
	t.Helper()
	var version int
	if err := l.QueryRow(t.Context(), `select current_setting('server_version_num')::int`).Scan(&version); err != nil {
		t.Fatal(err)
	}
	if version < schemas {
		t.Skip("publications of schemas, filters and columns exist since Postgres 15")
	}
}

func refused(t *testing.T, err error, says, hint string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want an Error that says %q", err, says)
	}
	if !strings.Contains(err.Error(), says) || !strings.Contains(e.Hint(), hint) || e.ExitCode() != 2 {
		t.Errorf("got %q with hint %q, want %q with %q", err, e.Hint(), says, hint)
	}
}

func TestPublicationRefused(t *testing.T) {
	c, db := open(t)
	db.exec(t, `create schema cdc_relay; create table cdc_relay.checkpoint (a int); create table outbox (a int);
		create publication everything for all tables;
		create publication ours for table outbox, cdc_relay.checkpoint;
		create publication updates for table outbox with (publish = 'update, delete');
		create publication other for table cdc_relay.checkpoint with (publish = 'insert')`)
	for name, want := range map[string][2]string{
		`it's "none"`: {`publication "it's \"none\"": it doesn't exist`, `setup --publication 'it'\''s "none"', or: create publication "it's ""none"""`},
		"everything":  {"for all tables", "outbox alone"},
		"ours":        {"cdc_relay.checkpoint", `drop table "cdc_relay"."checkpoint"`},
		"updates":     {"doesn't publish inserts", `alter publication "updates" set (publish = 'insert')`},
		"Updates":     {"doesn't exist", "create publication"}, // names don't fold
	} {
		_, err := c.Publication(t.Context(), name)
		refused(t, err, want[0], want[1])
	}
	if _, err := New(db, "elsewhere").Publication(t.Context(), "other"); err != nil {
		t.Errorf("a table of another schema: %v", err)
	}
}

func TestPublication(t *testing.T) {
	c, db := open(t)
	db.exec(t, `
		create table outbox (id int primary key, payload text);
		create table "Odd ""t" (a int);
		create table parts (id int, at date) partition by range (at);
		create table empty (id int) partition by list (id);
		create table part1 partition of parts for values from ('2024-01-01') to ('2024-02-01');
		create table part2 partition of parts for values from ('2024-02-01') to ('2024-03-01');
		create publication p for table outbox, "Odd ""t", parts, part2, empty with (publish = 'insert, truncate', publish_via_partition_root = true);
		create publication leaf for table part1`)
	p, err := c.Publication(t.Context(), "p")
	if err != nil {
		t.Fatal(err)
	}
	if !p.Insert || p.Update || p.Delete || !p.Truncate || !p.ViaRoot || p.OID == 0 {
		t.Errorf("publication %+v", p)
	}
	var names []string
	for _, tab := range p.Tables {
		names = append(names, tab.Name.String())
	}
	if want := []string{`public.Odd "t`, "public.empty", "public.outbox", "public.parts"}; !slices.Equal(names, want) {
		t.Errorf("tables %q, want %q", names, want)
	}
	tab, err := p.Table(Name{"public", "parts"})
	if err != nil || !tab.Partitioned || tab.OID != db.oid(t, "parts") {
		t.Errorf("table %+v, %v", tab, err)
	}
	_, err = p.Table(Name{"public", `x"y`})
	refused(t, err, `publication "p" doesn't hold the table public.x"y`, `alter publication "p" add table "public"."x""y"`)

	if p, err = c.Publication(t.Context(), "leaf"); err != nil || len(p.Tables) != 1 || p.Tables[0].Name.Table != "part1" {
		t.Errorf("publication of one partition: %+v, %v", p, err)
	}
	_, err = p.Table(Name{"public", "parts"})
	refused(t, err, "doesn't hold", "add table")
}

func TestPublicationOfSchemas(t *testing.T) {
	c, db := open(t)
	db.since15(t)
	db.exec(t, `
		create schema app; create schema cdc_relay; create table cdc_relay.meta (a int);
		create table app.outbox (id int primary key, payload text, secret text);
		create table app.parts (id int) partition by list (id);
		create table app.part1 partition of app.parts for values in (1);
		create unlogged table app.scratch (a int);
		create view app.v as select 1 as a;
		create publication narrow for table app.outbox (id, payload) where (id > 5) with (publish = 'insert');
		create publication schema for tables in schema app;
		create publication bad for tables in schema app, cdc_relay`)
	p, err := c.Publication(t.Context(), "narrow")
	if err != nil || len(p.Tables) != 1 {
		t.Fatalf("%+v, %v", p, err)
	}
	if tab := p.Tables[0]; !slices.Equal(tab.Columns, []string{"id", "payload"}) || tab.Filter != "(id > 5)" {
		t.Errorf("columns %q, filter %q", tab.Columns, tab.Filter)
	}
	p, err = c.Publication(t.Context(), "schema")
	if err != nil || len(p.Tables) != 2 || p.Tables[0].Name != (Name{"app", "outbox"}) || p.Tables[1].Name != (Name{"app", "parts"}) || p.Tables[0].Columns != nil {
		t.Errorf("publication of a schema: %+v, %v", p, err)
	}
	_, err = c.Publication(t.Context(), "bad")
	refused(t, err, "cdc_relay.meta", `drop tables in schema "cdc_relay"`)
}

func TestColumns(t *testing.T) {
	c, db := open(t)
	db.exec(t, `create table "T x" (id bigserial primary key, gone int, payload jsonb, created_at timestamptz(3)); alter table "T x" drop column gone`)
	got, err := c.Columns(t.Context(), Name{"public", "T x"})
	want := []Column{{"id", 20, "bigint", true}, {"payload", 3802, "jsonb", false}, {"created_at", 1184, "timestamp(3) with time zone", false}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("columns %+v, %v", got, err)
	}
	if got, err = c.Columns(t.Context(), Name{"public", "none"}); err != nil || len(got) != 0 {
		t.Errorf("columns of no table: %+v, %v", got, err)
	}
}

func TestClassify(t *testing.T) {
	c, db := open(t)
	db.exec(t, `
		create schema audit;
		create table outbox (id int, at date) partition by range (at);
		create table outbox_1 partition of outbox for values from ('2024-01-01') to ('2024-02-01');
		create table outbox_2 partition of outbox for values from ('2024-02-01') to ('2024-03-01') partition by list (id);
		create table outbox_2_1 partition of outbox_2 for values in (1);
		create table outbox_3 partition of outbox for values from ('2024-03-01') to ('2024-04-01');
		create table audit.outbox (id int);
		create table orders (id int) partition by list (id);
		create table orders_1 partition of orders for values in (1);
		create table lonely (id int);
		create table dropped (id int);
		create publication p for table outbox, audit.outbox, orders, dropped`)
	dropped, outbox3 := db.oid(t, "dropped"), db.oid(t, "outbox_3")
	db.exec(t, `drop table dropped; alter table outbox detach partition outbox_3`)
	const gone = 4_000_000_000
	for _, viaRoot := range []string{"false", "true"} {
		db.exec(t, `alter publication p set (publish_via_partition_root = `+viaRoot+`)`)
		k := Classifier{Catalog: c, Publication: "p", Outbox: Name{"public", "outbox"}}
		for _, r := range []struct {
			why          string
			id           uint32
			schema, name string
			want         decode.Class
		}{
			{"itself", db.oid(t, "outbox"), "public", "outbox", decode.Outbox},
			{"its partition", db.oid(t, "outbox_1"), "public", "outbox_1", decode.Outbox},
			{"a partition's partition", db.oid(t, "outbox_2_1"), "public", "outbox_2_1", decode.Outbox},
			{"it had the name then", gone, "public", "outbox", decode.Outbox},
			{"it was renamed since", db.oid(t, "outbox"), "public", "outbox_old_name", decode.Outbox},
			{"same name, other schema", db.oid(t, "audit.outbox"), "audit", "outbox", decode.Foreign},
			{"other published", db.oid(t, "orders"), "public", "orders", decode.Foreign},
			{"partition of another", db.oid(t, "orders_1"), "public", "orders_1", decode.Foreign},
			{"dropped", dropped, "public", "dropped", decode.Unknown},
			{"never there", gone, "public", "x", decode.Unknown},
			{"detached partition", outbox3, "public", "outbox_3", decode.Unknown},
			{"no longer published", db.oid(t, "lonely"), "public", "lonely", decode.Unknown},
		} {
			got, err := k.Classify(t.Context(), r.id, r.schema, r.name)
			if err != nil || got != r.want {
				t.Errorf("via root %s, %s: class %v, %v; want %v", viaRoot, r.why, got, err, r.want)
			}
		}
	}
	// Where one partition alone is the outbox, its parent isn't.
	part := Classifier{Catalog: c, Publication: "p", Outbox: Name{"public", "outbox_1"}}
	if got, err := part.Classify(t.Context(), db.oid(t, "outbox"), "public", "outbox"); err != nil || got != decode.Foreign {
		t.Errorf("parent of the outbox: %v, %v", got, err)
	}
	// A partition that was made later is found: nothing was remembered.
	db.exec(t, `create table outbox_4 partition of outbox for values from ('2024-04-01') to ('2024-05-01')`)
	k := Classifier{Catalog: c, Publication: "p", Outbox: Name{"public", "outbox"}}
	if got, err := k.Classify(t.Context(), db.oid(t, "outbox_4"), "public", "outbox_4"); err != nil || got != decode.Outbox {
		t.Errorf("a new partition: %v, %v", got, err)
	}
}

// TestClassifyByOID: the stream may hold rows from before the outbox got another name, and from after.
func TestClassifyByOID(t *testing.T) {
	c, db := open(t)
	db.exec(t, `
		create table outbox (id int) partition by list (id);
		create table part partition of outbox for values in (1);
		create publication p for table outbox`)
	k := Classifier{Catalog: c, Publication: "p", Outbox: Name{"public", "outbox"}, OID: db.oid(t, "outbox")}
	part := db.oid(t, "part")
	db.exec(t, `create schema archive; alter table outbox rename to events; alter table events set schema archive`)
	for name, id := range map[string]uint32{"events": k.OID, "part": part} {
		if got, err := k.Classify(t.Context(), id, "archive", name); err != nil || got != decode.Outbox {
			t.Errorf("%s of the outbox that was renamed: %v, %v", name, got, err)
		}
	}
}

func TestClassifyFails(t *testing.T) {
	c, db := open(t)
	_ = db.Close(context.Background())
	k := Classifier{Catalog: c, Publication: "p", Outbox: Name{"public", "outbox"}}
	if got, err := k.Classify(t.Context(), 1, "public", "t"); err == nil || got != decode.Unknown || !strings.Contains(err.Error(), "public.t (oid 1)") {
		t.Errorf("without a connection: %v, %v", got, err)
	}
}

func TestCheckServer(t *testing.T) {
	c, _ := open(t)
	if err := c.CheckServer(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestShellQuote(t *testing.T) {
	for in, want := range map[string]string{"outbox": "outbox", "a b": "'a b'", "": "''", "it's": `'it'\''s'`, "$x": "'$x'"} {
		if got := shellQuote(in); got != want {
			t.Errorf("%q is quoted %s, want %s", in, got, want)
		}
	}
}

// TestCheckServerRefuses: on a server of its own, since wal_level is the whole server's.
func TestCheckServerRefuses(t *testing.T) {
	p := envtest.OwnPostgres(t, devenv.PostgresOptions{Settings: map[string]string{"wal_level": "replica"}})
	conn, err := pgx.Connect(t.Context(), p.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	refused(t, New(lender{conn}, "cdc_relay").CheckServer(t.Context()), "wal_level is replica", "restart Postgres")
}
