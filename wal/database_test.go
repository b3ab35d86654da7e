package wal_test

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/rs/zerolog"

	"github.com/cdc-relay/cdc-relay/internal/devenv/envtest"
	"github.com/cdc-relay/cdc-relay/wal"
)

// database is a real one with a table, a publication of it and a slot.
type database struct {
	t    testing.TB
	url  string
	sql  *pgx.Conn
	slot string
	pub  string
}

func postgres(t testing.TB) *database {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a Postgres")
	}
	return databaseAt(t, envtest.Database(t), "pub")
}

func databaseAt(t testing.TB, url, pub string) *database {
	t.Helper()
	d := &database{t: t, url: url, pub: pub}
	d.sql = d.connect()
	d.exec("CREATE TABLE events (id bigserial PRIMARY KEY, payload text)")
	d.exec("CREATE PUBLICATION " + pgx.Identifier{pub}.Sanitize() + " FOR TABLE events")
	d.slot = "slot_" + strings.ToLower(rand.Text()[:12])
	return d
}

func (d *database) connect() *pgx.Conn {
	d.t.Helper()
	conn, err := pgx.Connect(d.t.Context(), d.url)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func (d *database) exec(sql string, args ...any) {
	d.t.Helper()
	if _, err := d.sql.Exec(d.t.Context(), sql, args...); err != nil {
		d.t.Fatalf("%s: %v", sql, err)
	}
}

func (d *database) lsn(sql string, args ...any) (l wal.LSN) {
	d.t.Helper()
	if err := d.sql.QueryRow(d.t.Context(), sql, args...).Scan(&l); err != nil {
		d.t.Fatalf("%s: %v", sql, err)
	}
	return l
}

func (d *database) confirmed() wal.LSN {
	d.t.Helper()
	return d.lsn("SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = $1", d.slot)
}

func (d *database) end() wal.LSN {
	d.t.Helper()
	return d.lsn("SELECT pg_current_wal_insert_lsn()::text")
}

func (d *database) config() wal.Config {
	d.t.Helper()
	cfg, err := pgconn.ParseConfig(d.url)
	if err != nil {
		d.t.Fatal(err)
	}
	return wal.Config{Conn: cfg, Slot: d.slot, Publication: d.pub, Log: zerolog.Nop()}
}

// create makes the slot, and returns where it begins.
func (d *database) create() wal.LSN {
	d.t.Helper()
	s, err := wal.Open(d.t.Context(), d.config())
	if err != nil {
		d.t.Fatal(err)
	}
	defer s.Close()
	made, err := s.CreateSlot(d.t.Context(), d.slot, wal.SlotOptions{})
	if err != nil {
		d.t.Fatal(err)
	}
	return made.Consistent
}

// from runs a stream from a position.
func (d *database) from(start wal.LSN, change ...func(*wal.Config)) *session {
	d.t.Helper()
	cfg := d.config()
	for _, c := range change {
		c(&cfg)
	}
	ctx, cancel := context.WithCancel(d.t.Context())
	d.t.Cleanup(cancel)
	s, err := wal.Open(ctx, cfg)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { s.Close() })
	d.eventually("the slot is free", func() bool {
		err = s.Start(ctx, start)
		_, active := wal.IsSlotActive(err) // by the server's side of the stream before
		return !active
	})
	if err != nil {
		d.t.Fatal(err)
	}
	r := &session{t: d.t, stream: s, stored: storedAt(start), out: make(chan *wal.Batch), cancel: cancel, done: make(chan error, 1)}
	go func() { r.done <- s.Run(ctx, r.stored, r.out) }()
	return r
}

// eventually polls a condition.
func (d *database) eventually(what string, ok func() bool) {
	d.t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			d.t.Fatalf("it doesn't come about that %s", what)
		case <-tick.C:
		}
	}
}

// tx is a transaction as it was received.
type tx struct {
	commit, end wal.LSN
	rows        []string // the message of each insert, from the first column's length on
}

func (x tx) String() string { return fmt.Sprintf("%v..%v %d rows", x.commit, x.end, len(x.rows)) }

// until reads transactions until the stream has reached an end.
func (r *session) until(end wal.LSN) (all []tx) {
	r.t.Helper()
	var open *tx
	limit := time.After(2 * time.Minute)
	for {
		select {
		case b, ok := <-r.out:
			if !ok {
				r.t.Fatalf("the stream ended: %v", r.err())
			}
			reached := false
			for _, f := range b.Frames {
				switch {
				case f.Data == nil:
					reached = reached || open == nil && f.End >= end
				case f.Data[0] == 'B':
					open = &tx{commit: wal.LSN(binary.BigEndian.Uint64(f.Data[1:]))}
				case f.Data[0] == 'I':
					open.rows = append(open.rows, string(f.Data[8:]))
				case f.Data[0] == 'C':
					open.end = wal.LSN(binary.BigEndian.Uint64(f.Data[10:]))
					all = append(all, *open)
					reached = reached || open.end >= end
					open = nil
				}
			}
			b.Release()
			if reached {
				return all
			}
		case <-limit:
			r.t.Fatalf("the stream doesn't reach %v", end)
		}
	}
}

func sameTx(a, b tx) bool {
	return a.commit == b.commit && a.end == b.end && slices.Equal(a.rows, b.rows)
}
