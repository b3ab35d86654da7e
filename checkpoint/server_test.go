package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/internal/devenv"
	"github.com/cdc-relay/cdc-relay/internal/devenv/envtest"
	"github.com/cdc-relay/cdc-relay/sql"
	"github.com/cdc-relay/cdc-relay/wal"
)

// realServer is a Postgres of the test's own, set up, with a relay's view of it.
type realServer struct {
	*devenv.Postgres
	config *pgx.ConnConfig
	store  *Store
}

func newRealServer(t *testing.T) *realServer {
	t.Helper()
	p := envtest.OwnPostgres(t, devenv.PostgresOptions{})
	config, err := pgx.ParseConfig(p.URL())
	must(t, err)
	r := &realServer{Postgres: p, config: config, store: NewStore(StoreConfig{Conn: config, Slot: "s", Owner: NewOwner()})}
	t.Cleanup(func() { _ = r.store.Close(context.Background()) })
	conn := r.connect(t)
	_, err = sql.Setup(t.Context(), conn, sql.Options{})
	must(t, err)
	must(t, conn.Close(t.Context()))
	return r
}

func (r *realServer) connect(t *testing.T) *pgx.Conn {
	t.Helper()
	conn, err := pgx.ConnectConfig(t.Context(), r.config)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func (r *realServer) exec(t *testing.T, statement string) {
	t.Helper()
	must(t, r.store.Do(t.Context(), func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, statement)
		return err
	}))
}

// event inserts one and returns the end of the log behind it.
func (r *realServer) event(t *testing.T) (end wal.LSN) {
	t.Helper()
	r.exec(t, `insert into outbox_events (entity_id, event_type, payload) values ('e', 't', '{}')`)
	must(t, r.store.Do(t.Context(), func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `select pg_current_wal_insert_lsn()::text`).Scan(&end)
	}))
	return end
}

// decide looks at slot, row and server as a relay does.
func (r *realServer) decide(t *testing.T) (Start, *Row, Server, *wal.Stream, error) {
	t.Helper()
	s, err := wal.Open(t.Context(), wal.Config{Conn: &r.config.Config, Slot: "s", Publication: sql.DefaultPublication})
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	info, err := s.Slot(t.Context(), "s")
	must(t, err)
	row, err := r.store.Read(t.Context())
	must(t, err)
	sys, err := s.Identify(t.Context())
	must(t, err)
	srv := Server{SystemID: sys.ID, Timeline: sys.Timeline, Flushed: sys.Flushed, Database: sys.Database}
	history, err := s.TimelineHistory(t.Context(), sys.Timeline)
	must(t, err)
	for _, h := range history {
		srv.History = append(srv.History, Switch{h.Timeline, h.Switch})
	}
	var slot *Slot
	if info != nil {
		slot = &Slot{
			Name: info.Name, Plugin: info.Plugin, Database: info.Database, Confirmed: info.Confirmed, WALStatus: info.WALStatus,
			Invalid: info.Invalidation, Temporary: info.Temporary, TwoPhase: info.TwoPhase, ActivePID: info.ActivePID,
		}
	}
	start, err := Decide("s", row, slot, srv)
	return start, row, srv, s, err
}

func (r *realServer) wants(t *testing.T, action Action) (Start, *Row, Server, *wal.Stream) {
	t.Helper()
	start, row, srv, s, err := r.decide(t)
	if err != nil || start.Action != action {
		t.Fatalf("decided on %s at %s, %v; want %s", start.Action, start.From, err, action)
	}
	return start, row, srv, s
}

func (r *realServer) refuses(t *testing.T, says string) {
	t.Helper()
	start, _, _, s, err := r.decide(t)
	var refused *RefuseError
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), says) {
		t.Errorf("decided on %s at %s, %v; want a refusal that says %q", start.Action, start.From, err, says)
	}
	must(t, s.Close())
}

// promote makes the server a standby of itself, and then a primary on the next timeline.
func (r *realServer) promote(t *testing.T) {
	t.Helper()
	must(t, r.Stop(t.Context(), devenv.Fast))
	must(t, os.WriteFile(filepath.Join(r.Dir(), "data", "standby.signal"), nil, 0o644))
	must(t, r.Start(t.Context()))
	if _, err := sql.Setup(t.Context(), r.connect(t), sql.Options{}); err == nil || !strings.Contains(err.Error(), "standby") {
		t.Errorf("setup on a standby: %v", err)
	}
	r.exec(t, `select pg_promote(true, 60)`)
}

// TestDecideOnServer: the life of a slot on a real server: first start, restart, failover, and
// what people do to slots.
func TestDecideOnServer(t *testing.T) {
	r := newRealServer(t)
	ctx := t.Context()

	_, _, srv, s := r.wants(t, FirstStart)
	must(t, r.store.Create(ctx, srv, sql.DefaultPublication))
	must(t, s.Close())
	_, _, _, s = r.wants(t, CreateSlot) // killed before the slot
	made, err := s.CreateSlot(ctx, "s", wal.SlotOptions{})
	must(t, err)
	must(t, s.Close())
	start, _, srv, s := r.wants(t, GoLive) // killed after it
	if start.From != made.Consistent {
		t.Errorf("starts at %s, the slot was made at %s", start.From, made.Consistent)
	}
	must(t, r.store.GoLive(ctx, srv, start.From))
	must(t, s.Close())

	start, _, _, s = r.wants(t, Resume)
	must(t, s.Start(ctx, start.From))
	_, err = r.store.Take(ctx)
	must(t, err)
	end := r.event(t)
	must(t, r.store.Save(ctx, end))
	must(t, s.Close())

	r.promote(t)
	start, row, srv, s := r.wants(t, Failover)
	if start.From != end || srv.Timeline != 2 || len(srv.History) != 1 {
		t.Errorf("starts at %s on %+v, stored is %s", start.From, srv, end)
	}
	must(t, r.store.Failover(ctx, row, srv, start.From))
	ls, err := r.store.Lineages(ctx, srv)
	must(t, err)
	if end2 := srv.History[0].End; ls.At(end2) != 2 || ls.At(end2-1) != 1 {
		t.Errorf("lineages %v, timeline 1 ended at %s", ls, end2)
	}
	must(t, s.Start(ctx, start.From))
	_, err = r.store.Take(ctx)
	must(t, err)
	must(t, r.store.Save(ctx, r.event(t)))
	must(t, s.Close())
	r.until(t, `select not active from pg_replication_slots where slot_name = 's'`)

	gap := r.event(t)
	r.exec(t, `select pg_replication_slot_advance('s', pg_current_wal_lsn())`)
	r.refuses(t, "moved or made again")
	r.exec(t, `select pg_drop_replication_slot('s')`)
	r.refuses(t, "the slot is gone")
	r.exec(t, `select pg_create_logical_replication_slot('s', 'pgoutput')`)
	r.refuses(t, "moved or made again")
	if row, err := r.store.Read(ctx); err != nil || row.Stored >= gap {
		t.Errorf("refusals moved the row to %+v, %v", row, err)
	}
	r.exec(t, `delete from cdc_relay.checkpoint`) // what the refusal advises, once the gap is filled
	start, _, srv, s = r.wants(t, Adopt)
	must(t, r.store.Adopt(ctx, srv, start.From, sql.DefaultPublication))
	must(t, s.Close())
	r.wants(t, Resume)
}

// TestStandbyAway: with a synchronous standby that never answers, positions are stored all the
// same, while a contract isn't taken for durable.
func TestStandbyAway(t *testing.T) {
	r := newRealServer(t)
	ctx := t.Context()
	srv := server(nil)
	must(t, r.store.Adopt(ctx, srv, 100, sql.DefaultPublication))
	r.exec(t, `alter system set synchronous_standby_names = 'absent'`)
	r.exec(t, `select pg_reload_conf()`)
	pinner := NewStore(StoreConfig{Conn: r.config, Slot: "s", Owner: NewOwner(), Timeout: time.Minute})
	defer pinner.Close(context.Background())
	c := contract
	// pin says whether the contract waits for the standby; give ends its patience.
	pin := func() (waits bool, give func() error) {
		ctx, cancel := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() {
			_, err := pinner.PinContract(ctx, c)
			done <- err
		}()
		give = func() error { cancel(); return <-done }
		for ; ; waits = r.ask(t, `select exists (select from pg_stat_activity where wait_event = 'SyncRep')`) {
			select {
			case err := <-done:
				done <- err
				return false, give
			default:
			}
			if waits {
				return true, give
			}
		}
	}
	waits, give := pin()
	for i := 0; !waits; i++ { // until the server has taken the setting over
		must(t, give())
		c.Topic = fmt.Sprint("topic ", i)
		waits, give = pin()
	}

	_, err := r.store.Take(ctx)
	must(t, err)
	must(t, r.store.Save(ctx, 200))

	// Where the wait is broken off the row is there, and must not be trusted either.
	if err := give(); !errors.Is(err, context.Canceled) {
		t.Errorf("a contract that a standby doesn't have: %v", err)
	}
	r.exec(t, `select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'`)
	r.until(t, `select exists (select from cdc_relay.contract where topic = '`+c.Topic+`')`)
	waits, give = pin()
	if err := give(); !waits || !errors.Is(err, context.Canceled) {
		t.Errorf("the row that was left behind is taken for durable: %v", err)
	}
}

// ask returns what a query says.
func (r *realServer) ask(t *testing.T, query string) (yes bool) {
	t.Helper()
	must(t, r.store.Do(t.Context(), func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, query).Scan(&yes)
	}))
	return yes
}

// until waits for a query to say yes.
func (r *realServer) until(t *testing.T, query string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !r.ask(t, query); {
		if time.Now().After(deadline) {
			t.Fatalf("never true: %s", query)
		}
	}
}
