package simulation

import (
	"flag"
	"net"
	"os"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/IBM/sarama"
)

var (
	flagSeeds = flag.Int("seeds", 500, "how many seeds TestSeeds plays")
	flagSeed  = flag.Uint64("seed", 0, "the one seed that TestSeeds plays, with its trace")
)

func TestMain(m *testing.M) {
	flag.Parse()
	runtime.GOMAXPROCS(1)
	startMetrics()
	os.Exit(m.Run())
}

func play(t *testing.T, seed uint64, txns, faulty int, change func(*world)) (w *world, err error) {
	synctest.Test(t, func(*testing.T) {
		w = newWorld(seed, txns, faulty)
		if change != nil {
			change(w)
		}
		err = w.run()
	})
	return w, err
}

func TestSeeds(t *testing.T) {
	if *flagSeed != 0 {
		w, err := play(t, *flagSeed, 15, 10, nil)
		t.Log("\n" + w.trace.tail(1<<30))
		if err != nil {
			t.Error(err)
		}
		return
	}
	total := map[string]int{}
	for seed := uint64(1); seed <= uint64(*flagSeeds); seed++ {
		w, err := play(t, seed, 15, 10, nil)
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, w.trace.tail(60))
		}
		for k, n := range w.counts {
			total[k] += n
		}
	}
	t.Log(total)
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
