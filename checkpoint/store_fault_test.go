package checkpoint

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/sql"
)

func TestStoreVersionIsThatOfTheTables(t *testing.T) {
	if schemaVersion != sql.Version {
		t.Errorf("checkpoint reads version %d, setup makes %d", schemaVersion, sql.Version)
	}
}

func refusedBy(t *testing.T, err error, says, hint string) {
	t.Helper()
	var setup *SetupError
	if !errors.As(err, &setup) {
		t.Fatalf("got %v, want a SetupError that says %q", err, says)
	}
	if !strings.Contains(err.Error(), says) || !strings.Contains(setup.Hint(), hint) || setup.ExitCode() != 2 {
		t.Errorf("got %q with hint %q, want %q with %q", err, setup.Hint(), says, hint)
	}
	if strings.Contains(err.Error()+setup.Hint(), "secret") {
		t.Error("the error holds the password")
	}
}

func TestStoreWithoutTables(t *testing.T) {
	db := newTables(t)
	db.exec(t, `update cdc_relay.meta set version = 7`)
	_, err := db.store(t).Read(t.Context())
	refusedBy(t, err, "it is 7", "setup")
	db.exec(t, `delete from cdc_relay.meta`)
	_, err = db.store(t).Read(t.Context())
	refusedBy(t, err, "meta is empty", "cdc-relay setup")
	db.exec(t, `insert into cdc_relay.meta (version) values (1); alter table cdc_relay.checkpoint drop column owner`)
	_, err = db.store(t).Read(t.Context())
	refusedBy(t, err, `"owner" does not exist`, "cdc-relay setup")
	db.exec(t, `drop table cdc_relay.checkpoint`)
	_, err = db.store(t).Read(t.Context())
	refusedBy(t, err, `"cdc_relay.checkpoint" does not exist`, "cdc-relay setup")
	db.exec(t, `drop schema cdc_relay cascade`)
	_, err = db.store(t).Read(t.Context())
	refusedBy(t, err, `"cdc_relay.meta" does not exist`, "cdc-relay setup")
}

func TestStoreWithoutRights(t *testing.T) {
	db := newTables(t)
	s := db.store(t)
	must(t, s.Adopt(t.Context(), server(nil), 100, "pub"))
	db.exec(t, `revoke update on cdc_relay.checkpoint from `+db.relay.User)
	_, err := s.Take(t.Context())
	refusedBy(t, err, "permission denied for table checkpoint", "delete on \"cdc_relay\".checkpoint to \""+db.relay.User+`"`)
	db.exec(t, `revoke all on cdc_relay.contract from `+db.relay.User)
	_, err = s.PinContract(t.Context(), contract)
	refusedBy(t, err, "permission denied for table contract", "\"cdc_relay\".contract to")
	db.exec(t, `revoke all on cdc_relay.lineage from `+db.relay.User)
	_, err = s.Lineages(t.Context(), server(nil))
	refusedBy(t, err, "permission denied for table lineage", "\"cdc_relay\".lineage to")
	db.exec(t, `revoke all on schema cdc_relay from `+db.relay.User)
	_, err = db.store(t).Read(t.Context())
	refusedBy(t, err, "permission denied for schema cdc_relay", "grant usage on schema \"cdc_relay\" to")
}

// TestStoreReconnects: a session that was ended while nobody looked costs nothing.
func TestStoreReconnects(t *testing.T) {
	db := newTables(t)
	s := db.store(t)
	must(t, s.Adopt(t.Context(), server(nil), 100, "pub"))
	_, err := s.Take(t.Context())
	must(t, err)
	for i := range 3 {
		db.exec(t, `select pg_terminate_backend(pid) from pg_stat_activity where usename = $1`, db.relay.User)
		must(t, s.Save(t.Context(), 200+1<<i))
	}
	must(t, s.Close(t.Context()))
	must(t, s.Close(t.Context()))
	must(t, s.Save(t.Context(), 300))
}

// TestStoreManyCallers: calls of several goroutines share the connection, which is cut under them,
// and refusals name the role meanwhile.
func TestStoreManyCallers(t *testing.T) {
	db := newTables(t)
	s := db.store(t)
	must(t, s.Adopt(t.Context(), server(nil), 100, "pub"))
	db.exec(t, `revoke select on cdc_relay.contract from `+db.relay.User)
	_, err := s.Take(t.Context())
	must(t, err)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 5 {
				if err := s.CheckOwner(t.Context()); err != nil {
					t.Error(err)
				}
				if _, err := s.Contracts(t.Context(), "orders"); err == nil {
					t.Error("read what may not be read")
				}
			}
		})
	}
	db.exec(t, `select pg_terminate_backend(pid) from pg_stat_activity where usename = $1`, db.relay.User)
	wg.Wait()
}

// TestStorePasswordOfTheMoment: each connection asks for its settings.
func TestStorePasswordOfTheMoment(t *testing.T) {
	db := newTables(t)
	s := NewStore(StoreConfig{Slot: "s", Owner: NewOwner(), Config: func(context.Context) (*pgx.ConnConfig, error) { return db.relay, nil }})
	defer s.Close(context.Background())
	must(t, s.Adopt(t.Context(), server(nil), 100, "pub"))
	db.exec(t, `alter role `+db.relay.User+` password 'secret of tomorrow'`)
	db.relay = db.relay.Copy()
	db.relay.Password = "secret of tomorrow"
	db.exec(t, `select pg_terminate_backend(pid) from pg_stat_activity where usename = $1`, db.relay.User)
	_, err := s.Take(t.Context())
	must(t, err)

	broken := errors.New("the command that prints the password has failed")
	s = NewStore(StoreConfig{Slot: "s", Owner: NewOwner(), Config: func(context.Context) (*pgx.ConnConfig, error) { return nil, broken }})
	_, err = s.Read(t.Context())
	wants(t, err, broken, "connect")
}

// TestStoreNeverHangs: neither a lock, nor a server that takes the connection and says nothing,
// nor another call that waits for one of these, outlasts the timeout or the caller's patience.
func TestStoreNeverHangs(t *testing.T) {
	db := newTables(t)
	s := db.store(t)
	must(t, s.Adopt(t.Context(), server(nil), 100, "pub"))
	_, err := s.Take(t.Context())
	must(t, err)

	tx, err := db.Begin(t.Context())
	must(t, err)
	if _, err := tx.Exec(t.Context(), `select from cdc_relay.checkpoint for update`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() { first <- s.Save(ctx, 200) }()
	waiting := func() bool {
		var n int
		must(t, tx.QueryRow(t.Context(), `select count(*) from pg_stat_activity where usename = $1 and wait_event_type = 'Lock'`, db.relay.User).Scan(&n))
		return n > 0
	}
	for deadline := time.Now().Add(5 * time.Second); !waiting(); {
		if time.Now().After(deadline) {
			t.Fatal("the first call doesn't wait for the lock")
		}
	}
	second, cancelSecond := context.WithCancel(t.Context())
	cancelSecond()
	if err := s.Save(second, 300); !errors.Is(err, context.Canceled) {
		t.Errorf("a second call that was given up: %v", err)
	}
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("a call that was given up while it waited for a lock: %v", err)
	}
	short := NewStore(StoreConfig{Conn: db.relay, Slot: "s", Owner: s.cfg.Owner, Timeout: 50 * time.Millisecond})
	if err := short.Save(t.Context(), 200); err == nil {
		t.Error("a locked row was written")
	}
	must(t, tx.Rollback(t.Context()))
	must(t, short.Close(t.Context()))
	must(t, s.Save(t.Context(), 200))

	dead, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer dead.Close()
	config := db.relay.Copy()
	config.Host, config.Port, config.Fallbacks = "127.0.0.1", uint16(dead.Addr().(*net.TCPAddr).Port), nil
	silent := NewStore(StoreConfig{Conn: config, Slot: "s", Owner: NewOwner(), Timeout: 50 * time.Millisecond})
	if _, err := silent.Read(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a silent server: %v", err)
	} else if strings.Contains(err.Error(), "secret") {
		t.Error("the error holds the password")
	}
}

// TestStoreDoOnce: an error of the statement itself isn't tried again.
func TestStoreDoOnce(t *testing.T) {
	db := newTables(t)
	s := db.store(t)
	for range 2 {
		calls := 0
		err := s.Do(t.Context(), func(ctx context.Context, conn *pgx.Conn) error {
			calls++
			_, err := conn.Exec(ctx, `select 1/0`)
			return err
		})
		if err == nil || calls != 1 {
			t.Errorf("%d calls, %v", calls, err)
		}
	}
}
