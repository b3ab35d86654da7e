package crash

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/devenv"
	"github.com/cdc-relay/cdc-relay/internal/devenv/envtest"
	"github.com/cdc-relay/cdc-relay/test/lab"
	"github.com/cdc-relay/cdc-relay/wal"
)

// rounds are how often each is killed.
const (
	relayRounds    = 20
	postgresRounds = 5
	brokerRounds   = 5
)

// crime is a kill, and what was unconfirmed at that moment.
type crime struct {
	what   string
	stored wal.LSN
	newest int64 // greatest id that was committed
}

// TestKill kills the relay 20 times, Postgres 5 times (as a crash) and the broker 5 times, with
// writers at work. Nothing may be missing, moved, or out of order, and a repeat must be the same in
// every byte. A round counts only if events were unconfirmed when it struck.
func TestKill(t *testing.T) {
	pg := envtest.OwnPostgres(t, devenv.PostgresOptions{})
	kafka := envtest.OwnKafka(t, devenv.KafkaOptions{})
	l := lab.New(t, pg, kafka.Brokers())
	relay := l.Start()
	relay.WaitReady()
	writers := l.Write(4, 5*time.Millisecond)
	var crimes []crime
	for i := range relayRounds {
		c := witness(t, l, fmt.Sprintf("relay %d", i+1))
		relay.Kill()
		crimes = append(crimes, c.sealed(l))
		relay = l.Start()
	}
	for i := range postgresRounds {
		c := witness(t, l, fmt.Sprintf("postgres %d", i+1))
		restart(t, pg)
		crimes = append(crimes, c.sealed(l))
	}
	for i := range brokerRounds {
		c := witness(t, l, fmt.Sprintf("broker %d", i+1))
		restart(t, kafka)
		crimes = append(crimes, c.sealed(l))
	}
	writers.Stop()
	l.Settle()
	r := l.Verdict()
	t.Logf("\n%s", r)
	if !r.Clean() {
		t.Errorf("not clean after %d kills", len(crimes))
	}
	judge(t, l, crimes, r.Records)

	// After all that, a clean stop repeats nothing.
	records := l.Records()
	if code := relay.Stop(); code != 0 {
		t.Fatalf("clean stop: exit code %d", code)
	}
	l.Start().WaitReady()
	l.Settle()
	if got := l.Records(); got != records+1 {
		t.Errorf("%d records after a clean stop and one more event, want %d", got, records+1)
	}
}

// server is what can be killed and started again.
type server interface {
	Kill() error
	Start(ctx context.Context) error
}

func restart(t *testing.T, s server) {
	t.Helper()
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// witness waits until the relay has published and stored more, so that the kill falls into traffic,
// and notes the newest event that is committed right before it.
func witness(t *testing.T, l *lab.Lab, what string) crime {
	t.Helper()
	l.WaitStored(l.Stored() + 1)
	l.WaitRecords(l.Records() + 200)
	newest, err := strconv.ParseInt(l.One("select max(id) from outbox_events"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return crime{what: what, newest: newest}
}

// sealed adds the position as it is after the kill. Where the relay lives on it may have moved since,
// which only makes the count of what was unconfirmed smaller.
func (c crime) sealed(l *lab.Lab) crime {
	c.stored = l.Stored()
	return c
}

// judge fails for each kill that struck when everything was confirmed. An event's position says
// whether its commit lies past what was stored.
func judge(t *testing.T, l *lab.Lab, crimes []crime, records int) {
	t.Helper()
	unconfirmed := make([]int, len(crimes))
	seen := map[string]bool{}
	for _, r := range l.Read(records) {
		key := r.Headers["dedupe_key"]
		if seen[key] {
			continue
		}
		seen[key] = true
		pos, err := wal.ParsePosition(r.Headers["position"])
		if err != nil {
			t.Fatal(err)
		}
		id, err := strconv.ParseInt(r.Headers["ordering_key"][14:], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range crimes {
			if pos.Commit >= c.stored && id <= c.newest {
				unconfirmed[i]++
			}
		}
	}
	for i, c := range crimes {
		t.Logf("%-12s %6d events unconfirmed past %s", c.what, unconfirmed[i], c.stored)
		if unconfirmed[i] == 0 {
			t.Errorf("%s: nothing was unconfirmed, so the round proves nothing", c.what)
		}
	}
}
