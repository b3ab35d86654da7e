package simulation

import (
	"net"
	"os"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/IBM/sarama"
)

// TestMain gives Go one processor: what goroutines do between two operations then depends on
// nothing but the seed. More than one are used by more than one process.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	startMetrics()
	os.Exit(m.Run())
}

// play plays a world in a bubble of its own.
func play(t *testing.T, seed uint64, make func(seed uint64) *world) (w *world, err error) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		w = make(seed)
		err = w.run()
	})
	return w, err
}

// startMetrics starts the one goroutine of sarama's metrics that never ends, outside of any
// bubble: a bubble that started it would never end either.
func startMetrics() {
	conf := sarama.NewConfig()
	conf.Net.Proxy.Enable, conf.Net.Proxy.Dialer = true, closedDialer{}
	b := sarama.NewBroker("nowhere:9092")
	_ = b.Open(conf) // what comes of it doesn't matter
	_, _ = b.Connected()
}

// closedDialer connects to somebody who hangs up.
type closedDialer struct{}

// Dial implements proxy.Dialer.
func (closedDialer) Dial(string, string) (net.Conn, error) {
	a, b := net.Pipe()
	_ = b.Close() // nothing can go wrong with a pipe
	return a, nil
}
