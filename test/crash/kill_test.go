package crash

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/devenv"
	"github.com/cdc-relay/cdc-relay/internal/devenv/envtest"
	"github.com/cdc-relay/cdc-relay/test/lab"
)

// rounds are how often each is killed.
type rounds struct{ relay, postgres, broker int }

func roundsOf() rounds {
	if testing.Short() {
		return rounds{3, 1, 1}
	}
	return rounds{20, 5, 5}
}

// TestKill kills the relay 20 times, Postgres 5 times (as a crash) and the broker 5 times (less with -short),
// with writers at work. Nothing may be missing, moved, or out of order, and a repeat must be the same in
// every byte. A round counts only if events were unconfirmed when it struck.
func TestKill(t *testing.T) {
	pg := envtest.OwnPostgres(t, devenv.PostgresOptions{})
	kafka := envtest.OwnKafka(t, devenv.KafkaOptions{})
	l := lab.New(t, pg, kafka.Brokers())
	relay := l.Start()
	relay.WaitReady()
	writers := l.Write(4, 5*time.Millisecond)
	var crimes []crime
	n := roundsOf()
	for i := range n.relay {
		c := witness(t, l, fmt.Sprintf("relay %d", i+1), 2)
		relay.Kill()
		crimes = append(crimes, c.sealed(l))
		relay = l.Start()
	}
	for i := range n.postgres {
		c := witness(t, l, fmt.Sprintf("postgres %d", i+1), 2)
		kill(t, pg)
		start(t, pg)
		crimes = append(crimes, c.sealed(l))
	}
	for i := range n.broker {
		c := witness(t, l, fmt.Sprintf("broker %d", i+1), 1)
		kill(t, kafka)
		crimes = append(crimes, c.sealed(l)) // now: the relay lives on, and goes on once the broker is back
		start(t, kafka)
	}
	writers.Stop()
	verdict(t, l, crimes)

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

func kill(t *testing.T, s server) {
	t.Helper()
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
}

func start(t *testing.T, s server) {
	t.Helper()
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}
