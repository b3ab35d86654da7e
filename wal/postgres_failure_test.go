package wal_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/devenv"
	"github.com/cdc-relay/cdc-relay/internal/devenv/envtest"
	"github.com/cdc-relay/cdc-relay/wal"
)

// ownPostgres is a database on a server that the test may maltreat.
func ownPostgres(t *testing.T, settings map[string]string) (*database, *devenv.Postgres) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a Postgres")
	}
	p := envtest.OwnPostgres(t, devenv.PostgresOptions{Settings: settings})
	return databaseAt(t, p.URL(), "pub"), p
}

// try opens and starts a stream, and returns what Start said.
func (d *database) try(start wal.LSN) error {
	d.t.Helper()
	s, err := wal.Open(d.t.Context(), d.config())
	if err != nil {
		d.t.Fatal(err)
	}
	defer s.Close()
	return s.Start(d.t.Context(), start)
}

// Changes from before the publication was made can't be read through it, neither by the
// versions that fail nor by those that only warn, and nothing behind them is handed on.
func TestPostgresPublicationMadeAfterTheSlot(t *testing.T) {
	d := postgres(t)
	d.exec("DROP PUBLICATION pub")
	begin := d.create()
	d.exec("INSERT INTO events (payload) VALUES ('before')")
	d.exec("CREATE PUBLICATION pub FOR TABLE events")
	d.exec("INSERT INTO events (payload) VALUES ('behind')")
	for range 2 { // it doesn't heal, and isn't stepped over
		r := d.from(begin)
		for b := range r.out {
			for _, f := range b.Frames {
				if f.Data != nil && f.Data[0] == 'I' {
					t.Errorf("row %q", f.Data)
				}
			}
			b.Release()
		}
		if err := r.err(); !errors.Is(err, wal.ErrPublicationMissing) {
			t.Errorf("error: %v", err)
		}
		if got := d.confirmed(); got != begin {
			t.Errorf("confirmed %v, want %v", got, begin)
		}
	}
}

func TestPostgresRefusesStart(t *testing.T) {
	d := postgres(t)
	if err := d.try(1); !errors.Is(err, wal.ErrSlotMissing) {
		t.Errorf("no slot: %v", err)
	}
	begin := d.create()
	if err := d.try(d.end() + 1<<30); !errors.Is(err, wal.ErrAhead) {
		t.Errorf("far ahead: %v", err)
	}
	r := d.from(begin)
	var holder int32
	if err := d.sql.QueryRow(t.Context(), "SELECT active_pid FROM pg_replication_slots WHERE slot_name = $1", d.slot).Scan(&holder); err != nil {
		t.Fatal(err)
	}
	if pid, active := wal.IsSlotActive(d.try(begin)); !active || pid != holder {
		t.Errorf("active: %v, pid %d; want %d", active, pid, holder)
	}
	d.exec("SELECT pg_terminate_backend($1)", holder)
	r.rest()
	if err := r.err(); !errors.Is(err, wal.ErrServerStopping) {
		t.Errorf("terminated: %v", err)
	}
}

// The server goes away in each of its ways, in the middle of a stream. What was stored is where
// the next stream goes on.
func TestPostgresGoesAway(t *testing.T) {
	d, p := ownPostgres(t, nil)
	begin := d.create()
	for name, c := range map[string]struct {
		end      func(context.Context) error
		stopping bool
	}{
		"fast":      {func(ctx context.Context) error { return p.Stop(ctx, devenv.Fast) }, true},
		"immediate": {func(ctx context.Context) error { return p.Stop(ctx, devenv.Immediate) }, false},
		"killed":    {func(context.Context) error { return p.Kill() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			d.exec("INSERT INTO events (payload) VALUES ($1)", name)
			r := d.from(begin)
			all := r.until(d.end())
			if len(all) != 1 {
				t.Fatalf("received %v", all)
			}
			begin = all[0].end
			r.stored.set(begin)
			go r.rest()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := c.end(ctx); err != nil {
				t.Fatalf("the server doesn't stop: %v", err)
			}
			if err := r.err(); err == nil || c.stopping && !errors.Is(err, wal.ErrServerStopping) {
				t.Errorf("error: %v", err)
			}
			if _, err := wal.Open(ctx, d.config()); err == nil {
				t.Error("a server that is down is opened")
			}
			if err := p.Start(ctx); err != nil {
				t.Fatal(err)
			}
			d.sql = d.connect()
		})
	}
}

func TestPostgresSlotLost(t *testing.T) {
	d, _ := ownPostgres(t, map[string]string{"max_slot_wal_keep_size": "1MB", "max_wal_size": "32MB", "min_wal_size": "32MB"})
	begin := d.create()
	d.eventually("the slot is lost", func() bool {
		d.exec("INSERT INTO events (payload) VALUES ('x')")
		d.exec("SELECT pg_switch_wal()")
		d.exec("CHECKPOINT")
		var status string
		if err := d.sql.QueryRow(t.Context(), "SELECT wal_status FROM pg_replication_slots").Scan(&status); err != nil {
			t.Fatal(err)
		}
		return status == "lost"
	})
	if err := d.try(begin); !errors.Is(err, wal.ErrSlotLost) {
		t.Errorf("error: %v", err)
	}
}

// A promotion leaves the timeline, and says where.
func TestPostgresTimeline(t *testing.T) {
	d, p := ownPostgres(t, nil)
	ctx := t.Context()
	history := func() (wal.System, []wal.TimelineSwitch) {
		t.Helper()
		s, err := wal.Open(ctx, d.config())
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		switches, err := s.TimelineHistory(ctx, s.System().Timeline)
		if err != nil {
			t.Fatal(err)
		}
		return s.System(), switches
	}
	before, none := history()
	if before.Timeline != 1 || len(none) != 0 {
		t.Errorf("at first: %+v, %v", before, none)
	}
	d.exec("INSERT INTO events (payload) VALUES ('x')")
	if err := p.Stop(ctx, devenv.Fast); err != nil {
		t.Fatal(err)
	}
	controls, err := filepath.Glob(filepath.Join(p.Dir(), "*", "PG_VERSION"))
	if err != nil || len(controls) != 1 {
		t.Fatalf("data folder: %v, %v", controls, err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(controls[0]), "standby.signal"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := p.Start(ctx); err != nil {
		t.Fatal(err)
	}
	d.sql = d.connect()
	d.exec("SELECT pg_promote()")
	after, switches := history()
	if after.ID != before.ID || after.Timeline != 2 {
		t.Errorf("after the promotion: %+v, before: %+v", after, before)
	}
	if len(switches) != 1 || switches[0].Timeline != 1 || switches[0].Switch <= before.Flushed || switches[0].Switch > after.Flushed {
		t.Errorf("switches %v between %v and %v", switches, before.Flushed, after.Flushed)
	}
}
