package simulation

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cdc-relay/cdc-relay/sink/kafka"
)

// TestMain gives Go one processor: what goroutines do between two operations then depends on
// nothing but the seed. More than one are used by more than one process.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	if err := startMetrics(); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// hangs is how long a run may take that needs some milliseconds.
const hangs = 2 * time.Minute

// play plays a world in a bubble of its own.
func play(t *testing.T, seed uint64, make func(seed uint64) *world) (w *world, err error) {
	t.Helper()
	// Outside of the bubble, so in real time: what waits for a mutex there makes it wait for ever.
	defer time.AfterFunc(hangs, func() { panic(fmt.Sprintf("seed %d hangs", seed)) }).Stop()
	synctest.Test(t, func(*testing.T) {
		w = make(seed)
		err = w.run()
	})
	return w, err
}

// startMetrics starts the one goroutine of the Kafka library's metrics that never ends, outside of any
// bubble: a bubble that started it would never end either.
func startMetrics() error {
	s, err := kafka.Open(context.Background(), kafka.Config{Brokers: []string{"nowhere:9092"}, Dial: hangUp}, nil)
	if err != nil {
		return err
	}
	if _, err := s.Topic(context.Background(), topicName); !errors.Is(err, kafka.ErrUnreachable) {
		return fmt.Errorf("look up a topic nowhere: %w", err)
	}
	_, err = s.Close(context.Background())
	return err
}

// hangUp connects to somebody who isn't there any more.
func hangUp(context.Context, string, string) (net.Conn, error) {
	a, b := net.Pipe()
	return a, b.Close()
}
