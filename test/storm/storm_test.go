package storm

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/cdc-relay/cdc-relay/sink/kafka"
	"github.com/cdc-relay/cdc-relay/test/oracle"
)

const (
	partitions = 24
	inFlight   = 30_000 // events at a time; in the relay the tracker bounds them
	patience   = 15 * time.Minute
	standstill = 30 * time.Second // far beyond every time-out in here
)

// storm is one run.
type storm struct {
	*testing.T
	ctx     context.Context
	cluster *kfake.Cluster
	wire    *wire
	weather *weather
	traffic *traffic
	events  int
	gap     int // events between two faults
	made    int // events produced for the first time
}

// newStorm prepares a storm of so many events in which each kind of fault strikes so often.
func newStorm(t *testing.T, events, each int) *storm {
	events = number(t, "STORM_EVENTS", events)
	seed := number(t, "STORM_SEED", int(time.Now().UnixNano()))
	t.Logf("STORM_SEED=%d STORM_EVENTS=%d", seed, events)
	limited, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	ctx, halt := context.WithCancelCause(limited)
	w := newWire()
	c, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.ListenFn(w.listen), kfake.SeedTopics(partitions, "storm"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	tr := newTraffic("storm", partitions, events)
	tr.halt = halt
	go tr.watch(ctx, standstill)
	return &storm{
		T: t, ctx: ctx, cluster: c, wire: w, events: events,
		// One round of all kinds more than asked for, since the last faults may find no traffic.
		gap:     max(1, events/((each+1)*len(kinds()))),
		weather: newWeather(c, w, "storm", partitions, uint64(seed)),
		traffic: tr,
	}
}

func number(t *testing.T, name string, n int) int {
	t.Helper()
	if s := os.Getenv(name); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatalf("environment variable %s: %v", name, err)
		}
	}
	return n
}

func (s *storm) open() *kafka.Sink {
	s.Helper()
	k, err := kafka.Open(s.ctx, kafka.Config{
		Brokers:      s.cluster.ListenAddrs(),
		DialTimeout:  2 * time.Second,
		WriteTimeout: 2 * time.Second,
		// Short, so that answers which never come don't take all the time.
		ReadTimeout:    time.Second,
		ProduceTimeout: 500 * time.Millisecond,
		MinBackoff:     2 * time.Millisecond,
		MaxBackoff:     100 * time.Millisecond,
		SlowBackoff:    100 * time.Millisecond,
		Log:            zerolog.Nop(),
	}, s.traffic)
	if err != nil {
		s.Fatal(err)
	}
	return k
}

// blow produces the events from one to another while faults strike.
func (s *storm) blow(k *kafka.Sink, from, to int) {
	s.Helper()
	for n := from; n < to; n++ {
		if n%s.gap == 0 {
			if err := s.weather.settle(s.ctx, 3); err != nil {
				s.Fatalf("event %d: %v, %v, %+v", n, err, context.Cause(s.ctx), k.Stats())
			}
			if err := s.weather.next(); err != nil {
				s.Fatal(err)
			}
		}
		if err := s.traffic.take(s.ctx, inFlight); err != nil {
			s.Fatalf("event %d: no room, %+v: %v", n, k.Stats(), err)
		}
		r := s.traffic.event(n)
		if n == s.made {
			s.made++
			s.traffic.expect(n, r)
		}
		if err := k.Produce(s.ctx, r); err != nil {
			s.Fatalf("produce event %d: %v, %v", n, err, context.Cause(s.ctx))
		}
	}
}

// calm ends the storm and waits until everything is settled.
func (s *storm) calm(k *kafka.Sink) {
	s.Helper()
	s.weather.clear()
	if err := k.Flush(s.ctx); err != nil {
		s.Fatalf("flush: %v, %v, %+v", err, context.Cause(s.ctx), k.Stats())
	}
	if left, err := k.Close(s.ctx); left != 0 || err != nil {
		s.Errorf("close returned %d and %v after a flush", left, err)
	}
}

// judge lets the oracle read the topic, and prints what the storm did.
func (s *storm) judge() oracle.Report {
	s.Helper()
	got, err := oracle.ReadTopic(s.ctx, s.cluster.ListenAddrs(), "storm")
	if err != nil {
		s.Fatal(err)
	}
	report := oracle.Check(s.traffic.expected, got)
	_, table := s.weather.counts()
	seen, broken := s.wire.rules.verdict()
	s.Logf("%d events as %d batches in %d requests, %d batches sent again, %d copies that came late\n%s\n%s",
		report.Expected, seen.batches, seen.requests, seen.retries, seen.late, table, report)
	for _, b := range broken {
		s.Error(b)
	}
	for _, f := range s.traffic.faults {
		s.Error(f)
	}
	return report
}

// struck fails the test unless each kind of fault struck at least n times.
func (s *storm) struck(n, total int) {
	s.Helper()
	counts, _ := s.weather.counts()
	sum := 0
	for _, k := range kinds() {
		sum += counts[k]
		if counts[k] < n {
			s.Errorf("%q struck %d times, want at least %d", k, counts[k], n)
		}
	}
	if sum < total {
		s.Errorf("%d faults struck, want at least %d", sum, total)
	}
}

// TestStorm: whatever the network and the brokers do, every event is in the topic exactly
// once, in its partition, in order.
func TestStorm(t *testing.T) {
	events, each := 1_000_000, 40
	if testing.Short() {
		events, each = 60_000, 2
	}
	s := newStorm(t, events, each)
	k := s.open()
	s.blow(k, 0, s.events)
	s.calm(k)
	if r := s.judge(); !r.Once() || r.Events != s.events {
		t.Error("the topic is not what was produced")
	}
	s.struck(each, s.events/2_000)
}

// A sink that is closed in mid-storm and opened again, with all from the first unsettled event
// on given to it once more: repeats are what was given twice at most, each like the first, and
// nothing is out of order.
func TestStormWithRestarts(t *testing.T) {
	const lives = 12
	events, each := 200_000, 5
	if testing.Short() {
		events, each = 40_000, 1
	}
	s := newStorm(t, events, each)
	from, twice := 0, 0
	for life := range lives {
		k := s.open()
		to := s.events * (life + 1) / lives
		s.blow(k, from, to)
		if life == lives-1 {
			s.calm(k)
			break
		}
		ctx, cancel := context.WithTimeout(s.ctx, 50*time.Millisecond)
		if _, err := k.Close(ctx); err != nil {
			t.Errorf("close in life %d: %v", life, err)
		}
		cancel()
		from = s.traffic.restart()
		twice += to - from
	}
	r := s.judge()
	// Each new life steps back once, and a request of the life before it may still lie in a broker
	// and be appended late: a second step, of repeats too (seen once, under load).
	if !r.Clean() || r.Repeated > twice || r.Rewinds > 2*(lives-1) {
		t.Errorf("%d repeats of the %d events given twice, %d rewinds in %d restarts", r.Repeated, twice, r.Rewinds, lives-1)
	}
	if twice == 0 {
		t.Error("nothing was unsettled at any restart: the test proves nothing")
	}
	t.Logf("%d events were given twice, %d are in the topic twice", twice, r.Repeated)
}
