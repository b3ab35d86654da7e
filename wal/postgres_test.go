package wal_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/internal/devenv/envtest"
	"github.com/cdc-relay/cdc-relay/wal"
	"github.com/cdc-relay/cdc-relay/wal/waltest"
)

// Starting at the end of any transaction gives exactly those behind it, also where one commit
// record follows directly on another. After a clean stop the slot is where the stored position
// is.
func TestPostgresResume(t *testing.T) {
	d := postgres(t)
	begin := d.create()
	other := d.connect()
	for i := range 6 {
		// Two that overlap and commit one right after the other.
		a, err := d.sql.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		b, err := other.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, tx := range []pgx.Tx{b, a} {
			if _, err := tx.Exec(t.Context(), "INSERT INTO events (payload) SELECT $1 FROM generate_series(1, 3)", fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(a.Commit(t.Context()), b.Commit(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	end := d.end()
	r := d.from(begin)
	all := r.until(end)
	r.stop()
	if got := d.confirmed(); got != begin {
		t.Errorf("confirmed %v although %v is stored", got, begin)
	}
	adjacent := 0
	for i, x := range all {
		if len(x.rows) != 3 {
			t.Errorf("transaction %d: %v", i, x)
		}
		if i > 0 && all[i-1].end == x.commit {
			adjacent++
		}
	}
	if len(all) != 12 || adjacent == 0 {
		t.Fatalf("%d transactions, %d of them adjacent: %v", len(all), adjacent, all)
	}
	for i, x := range all[:len(all)-1] {
		r := d.from(x.end)
		if got := r.until(end); !slices.EqualFunc(got, all[i+1:], sameTx) {
			t.Errorf("from the end of transaction %d: %v, want %v", i, got, all[i+1:])
		}
		r.stop()
		if got := d.confirmed(); got != x.end {
			t.Errorf("confirmed %v, stored %v", got, x.end)
		}
	}
}

// The stop itself tells the server what was stored meanwhile.
func TestPostgresLastStatus(t *testing.T) {
	d := postgres(t)
	r := d.from(d.create())
	for range 5 {
		d.exec("INSERT INTO events (payload) VALUES ('x')")
		all := r.until(d.end())
		r.stored.set(all[len(all)-1].end)
		r.stop()
		if got := d.confirmed(); got != r.stored.Stored() {
			t.Errorf("confirmed %v, stored %v", got, r.stored.Stored())
		}
		r = d.from(d.confirmed())
	}
	r.stop()
}

// A consumer that takes nothing for several times wal_sender_timeout keeps its connection.
func TestPostgresBlockedForLong(t *testing.T) {
	d := postgres(t)
	begin := d.create()
	const n = 20_000
	d.exec("INSERT INTO events (payload) SELECT repeat('x', 500) FROM generate_series(1, $1)", n)
	end := d.end()
	r := d.from(begin, func(c *wal.Config) { c.Conn.RuntimeParams["wal_sender_timeout"] = "1s" })
	<-time.After(5 * time.Second)
	all := r.until(end)
	if len(all) != 1 || len(all[0].rows) != n {
		t.Errorf("received %v", all)
	}
	r.stop()
}

// A stop in the middle of a transaction is drained too, whatever the server has yet to send.
func TestPostgresStopInTransaction(t *testing.T) {
	d := postgres(t)
	begin := d.create()
	d.exec("INSERT INTO events (payload) SELECT repeat('x', 500) FROM generate_series(1, 50000)")
	r := d.from(begin, func(c *wal.Config) { c.Drain = func() time.Duration { return time.Minute } })
	(<-r.out).Release()
	r.stop()
	if got := d.confirmed(); got != begin {
		t.Errorf("confirmed %v, stored %v", got, begin)
	}
}

func TestPostgresHugeRow(t *testing.T) {
	d := postgres(t)
	r := d.from(d.create())
	for _, n := range []int{65_000, 66_000, 3_000_000, 10} {
		d.exec("INSERT INTO events (payload) VALUES (repeat('y', $1))", n)
		all := r.until(d.end())
		if len(all) != 1 || len(all[0].rows) != 1 || strings.Count(all[0].rows[0], "y") != n {
			t.Errorf("row of %d bytes: %v", n, all)
		}
	}
	r.stop()
}

func TestPostgresPublicationNames(t *testing.T) {
	for _, name := range []string{"UpperCase", `It's "mine", "yours"`, `back\slash`, "ключ"} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() {
				t.Skip("needs a Postgres")
			}
			d := databaseAt(t, envtest.Database(t), name)
			r := d.from(d.create())
			d.exec("INSERT INTO events (payload) VALUES ('x')")
			if all := r.until(d.end()); len(all) != 1 {
				t.Errorf("received %v", all)
			}
			r.stop()
		})
	}
}

// Values print the same whatever the database prefers.
func TestPostgresPinsSettings(t *testing.T) {
	d := postgres(t)
	d.exec("ALTER TABLE events ADD b bytea, ADD d date, ADD z timestamptz, ADD i interval, ADD f float8")
	for _, set := range []string{
		"bytea_output = 'escape'", "DateStyle = 'German, DMY'", "TimeZone = 'Asia/Kolkata'", "IntervalStyle = 'sql_standard'", "extra_float_digits = 0",
		"client_encoding = 'LATIN1'", "statement_timeout = 1000",
	} {
		d.exec("DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET " + strings.ReplaceAll(set, "'", "''") + "', current_database()); END $$")
	}
	r := d.from(d.create())
	d.exec(`INSERT INTO events (payload, b, d, z, i, f) VALUES ('é', '\x00ff5c41', '2044-03-15', '2044-03-15 12:00:00.5+00', '1 day 2 hours', 0.1::float8 + 0.2)`)
	all := r.until(d.end())
	if len(all) != 1 {
		t.Fatalf("received %v", all)
	}
	for _, want := range []string{"é", `\x00ff5c41`, "2044-03-15", "2044-03-15 12:00:00.5+00", "1 day 02:00:00", "0.30000000000000004"} {
		if !strings.Contains(all[0].rows[0], want) {
			t.Errorf("row %q lacks %q", all[0].rows[0], want)
		}
	}
	<-time.After(1500 * time.Millisecond) // more than statement_timeout
	r.stop()
}

// An exported snapshot and the slot meet without a gap or an overlap.
func TestPostgresSnapshot(t *testing.T) {
	d := postgres(t)
	d.exec("INSERT INTO events (payload) SELECT 'old' FROM generate_series(1, 10)")
	s, err := wal.Open(t.Context(), d.config())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if info, err := s.Slot(t.Context(), d.slot); err != nil || info != nil {
		t.Fatalf("slot before it is made: %+v, %v", info, err)
	}
	made, err := s.CreateSlot(t.Context(), d.slot, wal.SlotOptions{})
	if err != nil {
		t.Fatal(err)
	}
	d.exec("INSERT INTO events (payload) SELECT 'new' FROM generate_series(1, 5)")
	snapshot, err := d.connect().BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := snapshot.Exec(t.Context(), "SET TRANSACTION SNAPSHOT '"+made.Snapshot+"'"); err != nil {
		t.Fatal(err)
	}
	var old int
	if err := snapshot.QueryRow(t.Context(), "SELECT count(*) FROM events").Scan(&old); err != nil {
		t.Fatal(err)
	}
	if err := snapshot.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	info, err := s.Slot(t.Context(), d.slot)
	if err != nil || info.Confirmed != made.Consistent || info.Plugin != "pgoutput" || info.Type != "logical" || info.Lost() || info.Active || info.Temporary {
		t.Errorf("slot: %+v, %v; want it at %v", info, err, made.Consistent)
	}
	if sys, err := s.Identify(t.Context()); err != nil || sys.Timeline < 1 || sys.ID == "" || sys.Flushed < made.Consistent || sys.Database != info.Database {
		t.Errorf("system: %+v, %v", sys, err)
	}
	if rows, err := s.Query(t.Context(), "SELECT 1; SELECT NULL, 'x'"); err != nil || len(rows) != 1 || rows[0][0] != nil || *rows[0][1] != "x" {
		t.Errorf("query: %v, %v", rows, err)
	}
	r := d.from(made.Consistent)
	all := r.until(d.end())
	if len(all) != 1 || len(all[0].rows) != 5 || old != 10 {
		t.Errorf("%d rows in the snapshot, then %v", old, all)
	}
	r.stop()
}

// A recording holds what a stream gets.
func TestPostgresRecord(t *testing.T) {
	d := postgres(t)
	begin := d.create()
	d.exec("INSERT INTO events (payload) SELECT 'r' || i FROM generate_series(1, 3) i")
	end := d.end()
	payloads, err := waltest.Record(t.Context(), d.url, d.slot, d.pub, end)
	if err != nil {
		t.Fatal(err)
	}
	var recorded bytes.Buffer
	if err := waltest.WriteFrames(&recorded, payloads); err != nil {
		t.Fatal(err)
	}
	frames, err := waltest.ReadFrames(&recorded)
	if err != nil {
		t.Fatal(err)
	}
	var kinds string
	for _, f := range frames {
		if f.Data != nil {
			kinds += string(f.Data[:1])
		}
	}
	if kinds != "BRIIIC" {
		t.Errorf("recorded %q", kinds)
	}
	r := d.from(begin)
	if all := r.until(end); len(all) != 1 || len(all[0].rows) != 3 {
		t.Errorf("the slot has moved: %v", all)
	}
	r.stop()
	if _, err := waltest.Record(t.Context(), d.url, "none", d.pub, end); err == nil {
		t.Error("a slot that isn't there is no error")
	}
}
