package decode_test

import (
	"context"
	"flag"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-relay/cdc-relay/decode"
	"github.com/cdc-relay/cdc-relay/internal/devenv"
	"github.com/cdc-relay/cdc-relay/wal"
	"github.com/cdc-relay/cdc-relay/wal/waltest"
)

var record = flag.String("record", "", "run the recordings on servers of these major versions, such as 15,18, and keep those that testdata has")

// TestRecord makes the recordings anew on real servers, which it starts itself, and checks
// what the decoder makes of them:
//
//	go test ./decode -run TestRecord -record 15,18
//	go test ./decode -run TestGolden -rewrite && git diff decode/testdata
//
// LSNs, times and OIDs are others each time; nothing else may change in the traces. Of
// versions that testdata doesn't have (14, 16, 17) nothing is kept, only checked.
func TestRecord(t *testing.T) {
	if *record == "" {
		return // a command rather than a test, see above
	}
	for _, major := range strings.Split(*record, ",") {
		version := "pg" + major
		t.Run(version, func(t *testing.T) {
			server := serve(t, major)
			admin := open(t, server)
			dir := t.TempDir()
			if slices.Contains(versions, version) {
				dir = filepath.Join("testdata", version)
			}
			for _, rec := range recordings {
				t.Run(rec.name, func(t *testing.T) {
					if n, err := strconv.Atoi(major); err != nil || n < rec.since {
						t.Skipf("needs Postgres %d", rec.since)
					}
					rec.keep(t, rec.record(t, server, admin), filepath.Join(dir, rec.name+".frames"))
				})
			}
		})
	}
}

// serve starts a quiet server.
func serve(t *testing.T, major string) string {
	t.Helper()
	p, err := devenv.StartPostgres(t.Context(), devenv.PostgresOptions{Version: major, Settings: map[string]string{
		"fsync": "off", "autovacuum": "off", "wal_level": "logical", "max_prepared_transactions": "5",
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p.URL()
}

// keep writes a recording and checks it as the other tests do with those that were kept.
func (rec recording) keep(t *testing.T, payloads [][]byte, file string) {
	t.Helper()
	if err := waltest.WriteFile(file, payloads); err != nil {
		t.Fatal(err)
	}
	frames, err := waltest.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	changes := feed(t, decode.New(), frames...)
	if rec.shows != nil {
		rec.shows(t, changes)
	}
	compareAll(t, frames)
}

// record runs the steps in a database of their own and streams what they wrote.
func (rec recording) record(t *testing.T, server string, admin *pgconn.PgConn) [][]byte {
	t.Helper()
	database := "rec_" + strings.ReplaceAll(rec.name, "-", "_")
	run(t, admin, `drop database if exists `+database)
	run(t, admin, `create database `+database)
	at, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	at.Path = "/" + database
	sessions := map[string]*pgconn.PgConn{"a": open(t, at.String()), "b": open(t, at.String())}
	setup := rec.setup
	if setup == "" {
		setup = notesInserts
	}
	run(t, sessions["a"], setup)
	slot := database
	run(t, sessions["a"], fmt.Sprintf(`select pg_create_logical_replication_slot('%s', 'pgoutput')`, slot))
	for _, s := range rec.steps {
		s.run(t, sessions[s.session])
	}
	until, err := wal.ParseLSN(one(t, sessions["a"], `select pg_current_wal_insert_lsn()`))
	if err != nil {
		t.Fatal(err)
	}
	// Past it, so that the recording ends with a keepalive outside a transaction.
	run(t, sessions["a"], `create table past_the_end ()`)
	payloads := rec.stream(t, at, slot, until)
	for _, conn := range sessions {
		conn.Close(t.Context())
	}
	awaitInactive(t, at, slot)
	run(t, admin, fmt.Sprintf(`select pg_drop_replication_slot('%s')`, slot))
	run(t, admin, `drop database `+database+` with (force)`)
	return payloads
}

// stream records the slot. Nothing is confirmed, so it can be read again.
func (rec recording) stream(t *testing.T, at *url.URL, slot string, until wal.LSN) [][]byte {
	t.Helper()
	begun := time.Now()
	payloads, err := waltest.Record(t.Context(), at.String(), slot, "pub", until)
	if err != nil {
		t.Fatal(err)
	}
	if !rec.overdue {
		return payloads
	}
	// The server asks after half the timeout and gives up after all of it. It takes most of the
	// time between the transaction's first and last row, so one of these timeouts hits it.
	took := time.Since(begun)
	for i := range 20 {
		awaitInactive(t, at, slot)
		timeout := took*6/5 + took*time.Duration(i)/20
		impatient, query := *at, at.Query()
		query.Set("wal_sender_timeout", fmt.Sprint(timeout.Milliseconds()))
		impatient.RawQuery = query.Encode()
		payloads, err := waltest.Record(t.Context(), impatient.String(), slot, "pub", until)
		if err != nil {
			t.Logf("timeout %s: %v", timeout, err)
			continue
		}
		if keepaliveInside(feed(t, decode.New(), framesOf(t, payloads)...)) {
			return payloads
		}
	}
	t.Fatal("the server didn't ask in the middle of the transaction; try again")
	return nil
}

func framesOf(t *testing.T, payloads [][]byte) []wal.Frame {
	t.Helper()
	var frames []wal.Frame
	for _, p := range payloads {
		f, _, err := wal.ParseFrame(p)
		if err != nil {
			t.Fatal(err)
		}
		frames = append(frames, f)
	}
	return frames
}

// awaitInactive waits until the slot's walsender has gone.
func awaitInactive(t *testing.T, at *url.URL, slot string) {
	t.Helper()
	conn := open(t, at.String())
	defer conn.Close(t.Context())
	for range 100 {
		if one(t, conn, fmt.Sprintf(`select count(*) from pg_replication_slots where slot_name = '%s' and active`, slot)) == "0" {
			return
		}
		run(t, conn, `select pg_sleep(0.05)`)
	}
	t.Fatalf("slot %s stays active", slot)
}

func (s step) run(t *testing.T, conn *pgconn.PgConn) {
	t.Helper()
	if s.rows == "" {
		run(t, conn, s.sql)
		return
	}
	if _, err := conn.CopyFrom(t.Context(), strings.NewReader(s.rows), s.sql); err != nil {
		t.Fatalf("%s: %v", s.sql, err)
	}
}

func open(t *testing.T, at string) *pgconn.PgConn {
	t.Helper()
	conn, err := pgconn.Connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func run(t *testing.T, conn *pgconn.PgConn, sql string) []*pgconn.Result {
	t.Helper()
	results, err := conn.Exec(t.Context(), sql).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return results
}

// one runs a query that gives one value.
func one(t *testing.T, conn *pgconn.PgConn, sql string) string {
	t.Helper()
	return string(run(t, conn, sql)[0].Rows[0][0])
}
