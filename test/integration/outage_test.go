package integration

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/devenv"
	"github.com/cdc-relay/cdc-relay/internal/devenv/envtest"
	"github.com/cdc-relay/cdc-relay/test/lab"
)

// TestBrokerOutage kills the broker in mid-stream. A producer that gives messages back as errors
// while later ones succeed loses or reorders them. (B43)
func TestBrokerOutage(t *testing.T) {
	for _, c := range []struct {
		keys   int
		outage time.Duration
	}{{1, 2 * time.Second}, {50, 2 * time.Second}, {1, 15 * time.Second}, {50, 15 * time.Second}} {
		t.Run(fmt.Sprintf("%d keys, %s", c.keys, c.outage), func(t *testing.T) {
			if testing.Short() && c.outage > 5*time.Second {
				t.Skip("short")
			}
			t.Parallel()
			outage(t, c.keys, c.outage)
		})
	}
}

func outage(t *testing.T, keys int, away time.Duration) {
	kafka := envtest.OwnKafka(t, devenv.KafkaOptions{})
	l := lab.New(t, envtest.Postgres(t), kafka.Brokers())
	relay := l.Start()
	relay.WaitReady()
	entities := make([]string, keys)
	for i := range entities {
		entities[i] = "k" + strconv.Itoa(i)
	}
	const total, killAt = 6000, 2000
	written := make(chan struct{})
	c := l.Conn()
	go func() {
		defer close(written)
		for i := range total / 2 {
			if _, err := c.Exec(t.Context(), lab.InsertSQL, 2, []string{entities[2*i%keys], entities[(2*i+1)%keys]}); err != nil {
				t.Errorf("insert: %v", err)
				return
			}
			if i == killAt/2 {
				if err := kafka.Kill(); err != nil {
					t.Error(err)
				}
			}
		}
	}()
	lab.UntilSQL(t, l, fmt.Sprintf("select count(*) > %d from outbox_events", killAt), "true")
	watch(t, away, func() {})
	if err := kafka.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	back := time.Now()
	<-written
	if t.Failed() {
		return
	}
	l.WaitRecords(total)
	if d := time.Since(back); d > 15*time.Second {
		t.Errorf("publishing was complete %s after the broker was back, want less than 15 s", d)
	}
	l.Settle()
	once(t, l)
}

// TestStopAcrossARestartOfPostgres: a server forgets the slot's confirmed position when it
// restarts; the relay's own row does not.
func TestStopAcrossARestartOfPostgres(t *testing.T) {
	t.Parallel()
	pg := envtest.OwnPostgres(t, devenv.PostgresOptions{})
	l := lab.New(t, pg, envtest.Kafka(t).Brokers())
	relay := l.Start()
	relay.WaitReady()
	l.Insert(1000, "a", "b", "c")
	l.WaitRecords(1000)
	if code := relay.Stop(); code != 0 {
		t.Fatalf("clean stop: exit code %d", code)
	}
	if err := pg.Stop(t.Context(), devenv.Fast); err != nil {
		t.Fatal(err)
	}
	if err := pg.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.Start().WaitReady()
	l.Settle()
	once(t, l)
}

// TestIdleWritesNextToNothing: each write of the position makes WAL, which moves the position: a
// relay that stores it for its own sake never comes to rest.
func TestIdleWritesNextToNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	t.Parallel()
	pg := envtest.OwnPostgres(t, devenv.PostgresOptions{Settings: map[string]string{"wal_sender_timeout": "4s"}})
	l := lab.New(t, pg, envtest.Kafka(t).Brokers())
	relay := l.Start()
	relay.WaitReady()
	l.Insert(10, "a")
	l.Settle()
	writes := func() int {
		l.Exec("select pg_stat_force_next_flush()")
		n, err := strconv.Atoi(l.One("select n_tup_upd from pg_stat_user_tables where relname = 'checkpoint'"))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	watch(t, 3*time.Second, func() {}) // what the events themselves cause, and the report of it
	before := writes()
	watch(t, time.Minute, func() {})
	if n := writes() - before; n > 1 {
		t.Errorf("%d writes of the position in 60 idle seconds, want at most 1", n)
	}
}

// TestBusyDatabaseIdleOutbox: work that is no event must not pin WAL.
func TestBusyDatabaseIdleOutbox(t *testing.T) {
	t.Parallel()
	pg := envtest.OwnPostgres(t, devenv.PostgresOptions{Settings: map[string]string{"wal_sender_timeout": "4s"}})
	l := lab.New(t, pg, envtest.Kafka(t).Brokers())
	l.Start().WaitReady()
	l.Exec("create table busy as select i, repeat('x', 500) pad from generate_series(1, 40000) i")
	end := l.CurrentLSN()
	l.WaitStored(end - 256<<10)
	lab.UntilSQL(t, l, "select pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn) < 1048576 from pg_replication_slots", "true")
}

// TestPostgresStopsWhileTheRelayIsConnected: a fast shutdown cuts SQL first, then waits until the
// walsender's client has confirmed everything, which it can't store any more. A relay that stays
// holds up a shutdown, and a switchover, for ever.
func TestPostgresStopsWhileTheRelayIsConnected(t *testing.T) {
	for _, c := range []struct {
		name   string
		freeze bool // the broker, with events in flight
	}{{"idle", false}, {"with events in flight", true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			pg := envtest.OwnPostgres(t, devenv.PostgresOptions{})
			kafka := envtest.OwnKafka(t, devenv.KafkaOptions{})
			l := lab.New(t, pg, kafka.Brokers())
			relay := l.Start()
			relay.WaitReady()
			l.Insert(10, "a")
			l.Settle()
			if c.freeze {
				if err := kafka.Freeze(); err != nil {
					t.Fatal(err)
				}
				l.Insert(100, "a")
			}
			began := time.Now()
			if err := pg.Stop(t.Context(), devenv.Fast); err != nil {
				t.Fatal(err)
			}
			if d := time.Since(began); d > 10*time.Second {
				t.Errorf("the shutdown took %s", d)
			}
			if c.freeze {
				if err := kafka.Thaw(); err != nil {
					t.Fatal(err)
				}
			}
			if err := pg.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			relay.WaitReady()
			l.Settle()
			if r := l.Verdict(); !r.Clean() {
				t.Errorf("after the restart:\n%s", r)
			}
		})
	}
}
