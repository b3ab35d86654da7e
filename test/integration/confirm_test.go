package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/devenv"
	"github.com/cdc-relay/cdc-relay/internal/devenv/envtest"
	"github.com/cdc-relay/cdc-relay/test/lab"
	"github.com/cdc-relay/cdc-relay/wal"
)

// once fails the test unless every event is in the topic exactly once.
func once(t *testing.T, l *lab.Lab) {
	t.Helper()
	if r := l.Verdict(); !r.Once() {
		t.Errorf("the topic is not what was inserted, once each:\n%s", r)
	}
}

// TestKeepaliveIsNotAnsweredPastUnackedEvents: the server asks for replies and names positions far
// ahead while the broker doesn't answer. Confirming them would lose the events at a crash. (B01)
func TestKeepaliveIsNotAnsweredPastUnackedEvents(t *testing.T) {
	t.Parallel()
	kafka := envtest.OwnKafka(t, devenv.KafkaOptions{})
	pg := envtest.OwnPostgres(t, devenv.PostgresOptions{Settings: map[string]string{"wal_sender_timeout": "2s"}})
	l := lab.New(t, pg, kafka.Brokers())
	relay := l.Start()
	relay.WaitReady()
	l.Insert(1, "a") // with the first event the contract is pinned; without that, none goes to the sink
	l.Settle()
	before := l.Confirmed()
	l.Probe()
	if err := kafka.Freeze(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = kafka.Thaw() }) // a frozen broker can't be stopped in good order
	l.Insert(1, "a")
	first := l.CommitEnd()
	for range 99 {
		l.Insert(1, "a")
	}
	l.Exec("create table unpublished as select i, repeat('x', 200) pad from generate_series(1, 50000) i")
	watch(t, 8*time.Second, func() {
		if got := l.Confirmed(); got >= first || got < before {
			t.Fatalf("confirmed %s while nothing is acknowledged; the first event's transaction ends at %s", got, first)
		}
	})
	relay.Kill()
	if got := l.Confirmed(); got >= first {
		t.Fatalf("confirmed %s at the crash", got)
	}
	if err := kafka.Thaw(); err != nil {
		t.Fatal(err)
	}
	again := l.Start()
	again.WaitReady()
	l.Settle()
	if r := l.Verdict(); !r.Clean() {
		t.Errorf("after the crash:\n%s", r)
	}
}

// watch looks again and again for a while.
func watch(t *testing.T, d time.Duration, look func()) {
	t.Helper()
	end := time.After(d)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		look()
		select {
		case <-end:
			return
		case <-tick.C:
		}
	}
}

// TestNothingAckedNothingConfirmed: a client that reports flush position 0 confirms what it has
// merely received. (B02)
func TestNothingAckedNothingConfirmed(t *testing.T) {
	t.Parallel()
	kafka := envtest.OwnKafka(t, devenv.KafkaOptions{})
	pg := envtest.OwnPostgres(t, devenv.PostgresOptions{Settings: map[string]string{"wal_sender_timeout": "3s"}})
	l := lab.New(t, pg, kafka.Brokers())
	l.Exec("select pg_create_logical_replication_slot($1, 'pgoutput')", l.Slot)
	made := l.Confirmed()
	if err := kafka.Kill(); err != nil {
		t.Fatal(err)
	}
	relay := l.Start()
	waitStreaming(t, l)
	for range 3 {
		l.Insert(1, "a")
	}
	watch(t, 4*time.Second, func() { // many intervals: a status goes out every 0.5 s
		if got := l.Confirmed(); got != made {
			t.Fatalf("confirmed moved from %s to %s with nothing acknowledged", made, got)
		}
	})
	relay.Kill()
	if err := kafka.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.Start().WaitReady()
	l.Settle()
	once(t, l)
}

// waitStreaming waits until somebody streams from the lab's slot.
func waitStreaming(t *testing.T, l *lab.Lab) {
	t.Helper()
	lab.UntilSQL(t, l, "select active from pg_replication_slots where slot_name = '"+l.Slot+"'", "true")
}

// TestRestartRepeatsNothing: confirming a transaction's commit LSN instead of its end would send
// the last one again at every start. (B03)
func TestRestartRepeatsNothing(t *testing.T) {
	t.Parallel()
	l := lab.New(t, envtest.Postgres(t), envtest.Kafka(t).Brokers())
	relay := l.Start()
	relay.WaitReady()
	l.Probe()
	l.Insert(2, "a")
	l.WaitRecords(2)
	end := l.CommitEnd()
	for range 5 {
		if code := relay.Stop(); code != 0 {
			t.Fatalf("clean stop: exit code %d", code)
		}
		if got := l.Confirmed(); got < end {
			t.Fatalf("confirmed %s after a clean stop, want at least the commit's end %s", got, end)
		}
		relay = l.Start()
		relay.WaitReady()
	}
	l.Settle() // had anything been sent again, it would lie before the sentinel
	once(t, l)
}

// TestStopsUnderTrafficRepeatNothing: a keepalive hides by how much the last commit was confirmed wrongly.
// While an application writes there is none between two transactions, and each stop shows it.
func TestStopsUnderTrafficRepeatNothing(t *testing.T) {
	t.Parallel()
	l := lab.New(t, envtest.Postgres(t), envtest.Kafka(t).Brokers())
	relay := l.Start()
	relay.WaitReady()
	writers := l.Write(4, 0)
	for range 5 {
		relay.WaitReady()
		before := l.Records()
		lab.Until(t, "more records", func(context.Context) (bool, error) { return l.Records() > before+100, nil }, nil)
		if code := relay.Stop(); code != 0 {
			t.Fatalf("clean stop: exit code %d\n%s", code, relay.Log())
		}
		relay = l.Start()
	}
	writers.Stop()
	relay.WaitReady()
	l.Settle()
	once(t, l)
}

// TestRowsInterleaveAcrossTransactions: a row's LSN orders nothing, commits do. (B05)
func TestRowsInterleaveAcrossTransactions(t *testing.T) {
	t.Parallel()
	l := lab.New(t, envtest.Postgres(t), envtest.Kafka(t).Brokers())
	relay := l.Start()
	relay.WaitReady()
	ctx := t.Context()
	a := l.Conn()
	insert := func(name string) string {
		return fmt.Sprintf("insert into outbox_events (entity_id, event_type, payload) values ('e', '%s', '{}')", name)
	}
	if _, err := a.Exec(ctx, "begin; "+insert("A1")); err != nil {
		t.Fatal(err)
	}
	l.Exec(insert("B1"))
	l.WaitRecords(1)
	relay.Kill() // between B and A
	if _, err := a.Exec(ctx, insert("A2")+"; commit"); err != nil {
		t.Fatal(err)
	}
	l.Start().WaitReady()
	l.Settle()
	var order []string
	last := wal.Position{}
	for _, r := range l.Read(int(l.Records())) {
		if r.Key != "e" {
			continue
		}
		if n := len(order); n > 0 && order[n-1] == r.Headers["event_type"] {
			continue // B1 once more: it may not have been stored yet at the kill
		}
		order = append(order, r.Headers["event_type"])
		pos, err := wal.ParsePosition(r.Headers["position"])
		if err != nil {
			t.Fatal(err)
		}
		if pos.Compare(last) <= 0 {
			t.Errorf("position %s of %s is not after %s", pos, r.Headers["event_type"], last)
		}
		last = pos
	}
	if got := strings.Join(order, " "); got != "B1 A1 A2" {
		t.Errorf("published %s, want the order of commits: B1 A1 A2", got)
	}
}

// TestStopStoresTheLastAcks: progress that sits in memory until the next timer would repeat at
// every deploy. (B07)
func TestStopStoresTheLastAcks(t *testing.T) {
	t.Parallel()
	l := lab.New(t, envtest.Postgres(t), envtest.Kafka(t).Brokers())
	relay := l.Start()
	relay.WaitReady()
	l.Probe()
	for range 10 {
		l.Insert(100, "a", "b", "c", "d", "e")
	}
	end := l.CommitEnd()
	l.WaitRecords(1000)
	if code := relay.Stop(); code != 0 {
		t.Fatalf("clean stop: exit code %d\n%s", code, relay.Log())
	}
	if got := l.Confirmed(); got < end {
		t.Errorf("confirmed %s when the relay had ended, want at least %s", got, end)
	}
	l.Start().WaitReady()
	l.Settle()
	once(t, l)
}

// TestStartsWhereItStopped: starting at the server's current position would skip what was written
// meanwhile. (B10)
func TestStartsWhereItStopped(t *testing.T) {
	t.Parallel()
	l := lab.New(t, envtest.Postgres(t), envtest.Kafka(t).Brokers())
	relay := l.Start()
	relay.WaitReady()
	if code := relay.Stop(); code != 0 {
		t.Fatalf("clean stop: exit code %d", code)
	}
	l.Insert(5, "a")
	l.Start().WaitReady()
	l.Settle()
	once(t, l)
	if n := l.Records(); n != 6 {
		t.Errorf("%d records, want the 5 and the sentinel", n)
	}
}
