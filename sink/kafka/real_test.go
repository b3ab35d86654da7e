package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/cdc-relay/cdc-relay/internal/devenv"
	"github.com/cdc-relay/cdc-relay/internal/devenv/envtest"
	"github.com/cdc-relay/cdc-relay/sink"
)

// realConfig is production's configuration but for time-outs that a test can wait for.
func realConfig(t testing.TB, brokers []string) Config {
	return Config{
		Brokers:        brokers,
		ReadTimeout:    3 * time.Second,
		ProduceTimeout: 2 * time.Second,
		Log:            zerolog.New(t.Output()).Level(zerolog.WarnLevel),
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestRealBroker publishes while a real broker is killed and started again twice, frozen for
// longer than the time-out, and stopped and started: nothing is missing, repeated or out of
// order.
func TestRealBroker(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	k := envtest.OwnKafka(t, devenv.KafkaOptions{})
	t.Logf("Kafka %s", k.Version())
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	topic := envtest.Topic(t, k.Brokers(), 12)
	h := newRecorder(t)
	s := open(t, realConfig(t, k.Brokers()), h)

	const n = 200_000
	restart := func() { must(t, k.Start(ctx)) }
	steady(t, s, topic, 12, n, func(i int) {
		if i%20_000 != 10_000 {
			return
		}
		h.settledTo(ctx, i-5_000) // under load, with records under way
		switch i / 20_000 {
		case 1, 3:
			must(t, k.Kill())
			go restart()
		case 5:
			must(t, k.Freeze())
			time.AfterFunc(4*time.Second, func() { must(t, k.Thaw()) })
		case 7:
			must(t, k.Stop(ctx))
			go restart()
		}
	})
	flush(t, ctx, s)
	st := s.Stats()
	t.Logf("%+v", st)
	if st.Reconnects < 4 {
		t.Errorf("%d connections lost, want one for each fault", st.Reconnects)
	}
	checkLog(t, ctx, k.Brokers(), topic, n, nil)
}

// TestRealOutage is case B43 on a real broker that is killed: 6,000 messages of one key and
// of 50, at the same time.
func TestRealOutage(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	k := envtest.OwnKafka(t, devenv.KafkaOptions{})
	for _, away := range []time.Duration{2 * time.Second, 15 * time.Second} {
		t.Run(away.String(), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute+away)
			defer cancel()
			const n = 6000
			type run struct {
				topic      string
				partitions int
				h          *recorder
				s          *Sink
			}
			var runs []run
			for _, partitions := range []int{1, 6} {
				r := run{envtest.Topic(t, k.Brokers(), 6), partitions, newRecorder(t), nil}
				r.s = open(t, realConfig(t, k.Brokers()), r.h)
				steady(t, r.s, r.topic, partitions, 2000, nil)
				r.h.settledTo(ctx, 1000)
				runs = append(runs, r)
			}
			must(t, k.Kill())
			for _, r := range runs {
				for i := 2000; i < n; i++ {
					produce(t, r.s, record(r.topic, int32(i%50%r.partitions), i))
				}
			}
			pause(ctx, away)
			must(t, k.Start(ctx))
			back := time.Now()
			for _, r := range runs {
				poll(t, ctx, "acks", func() bool { return r.s.Stats().Acked > 2000 })
				t.Logf("publishing %s after the broker answered", time.Since(back).Round(time.Millisecond))
				flush(t, ctx, r.s)
				checkLog(t, ctx, k.Brokers(), r.topic, n, nil)
			}
		})
	}
}

// TestRealRejections: what a real broker refuses, in all the ways that a row can cause
// (case B45), and nothing else.
func TestRealRejections(t *testing.T) {
	k := envtest.Kafka(t)
	const n = 3000
	for _, x := range []struct {
		name    string
		configs map[string]string
		code    int16
		spoil   func(r *sink.Record)
	}{
		{"too large", map[string]string{"max.message.bytes": "2000"}, 10, func(r *sink.Record) {
			r.Value = append(r.Value, strings.Repeat(" xyz", 1000)...)
		}},
		{"in the future", map[string]string{"message.timestamp.after.max.ms": "3600000"}, 32, func(r *sink.Record) {
			r.TimestampMs += 3 * 3600 * 1000
		}},
		{"no key, compacted", map[string]string{"cleanup.policy": "compact"}, 87, func(r *sink.Record) { r.Key = nil }},
	} {
		t.Run(x.name, func(t *testing.T) {
			ctx := testContext(t)
			topic := fmt.Sprintf("rejections-%d-%d", x.code, time.Now().UnixNano())
			must(t, devenv.CreateTopic(ctx, k.Brokers(), topic, 3, x.configs))
			defer func() { must(t, devenv.DeleteTopic(ctx, k.Brokers(), topic)) }()
			cfg := realConfig(t, k.Brokers())
			cfg.Compression = "none"
			h := newRecorder(t)
			h.verdict = settleAll
			s := open(t, cfg, h)
			bad := func(i int) bool { return i%150 == 0 }
			for i := range n {
				r := record(topic, int32(i%3), i)
				if bad(i) {
					x.spoil(r)
				}
				produce(t, s, r)
			}
			flush(t, ctx, s)
			if len(h.asked) != n/150 {
				t.Errorf("asked about %d records, want %d", len(h.asked), n/150)
			}
			for _, re := range h.asked {
				if re.Code != x.code || re.InDoubt {
					t.Errorf("asked about %v", re)
				}
			}
			t.Logf("%+v", s.Stats())
			checkLog(t, ctx, k.Brokers(), topic, n, bad)
		})
	}
}

// TestRealProbe: a real broker tells where our producer is.
func TestRealProbe(t *testing.T) {
	k := envtest.Kafka(t)
	ctx := testContext(t)
	topic := envtest.Topic(t, k.Brokers(), 1)
	s := open(t, realConfig(t, k.Brokers()), newRecorder(t))
	for i := range 7 {
		produce(t, s, record(topic, 0, i))
	}
	flush(t, ctx, s)
	p := s.partitions()[0]
	st, _, err := s.describeProducer(ctx, p, p.route, p.lane.id)
	if err != nil || st == nil || st.LastSequence != 6 || st.ProducerEpoch != 0 {
		t.Errorf("state %+v, %v; want sequence 6", st, err)
	}
	st, _, err = s.describeProducer(ctx, p, p.route, p.lane.id+1000)
	if err != nil || st != nil {
		t.Errorf("another producer: %+v, %v", st, err)
	}
}

// TestRealTopicMadeAgain: the topic is deleted and made again under load.
func TestRealTopicMadeAgain(t *testing.T) {
	k := envtest.Kafka(t)
	ctx := testContext(t)
	topic := envtest.Topic(t, k.Brokers(), 3)
	h := newRecorder(t)
	s := open(t, realConfig(t, k.Brokers()), h)
	steady(t, s, topic, 3, 1000, nil)
	flush(t, ctx, s)
	must(t, devenv.DeleteTopic(ctx, k.Brokers(), topic))
	for i := 1000; i < 1100; i++ {
		produce(t, s, record(topic, int32(i%3), i))
	}
	must(t, devenv.CreateTopic(ctx, k.Brokers(), topic, 3, nil))
	var re *RegressedError
	h.await(ctx, "the topic to stop for good", func() bool {
		return len(h.topics) > 0 && errors.As(h.topics[len(h.topics)-1], &re)
	})
	t.Log(re)
	if h.acked != 1000 {
		t.Errorf("%d acks, want 1000", h.acked)
	}
	if err := s.Flush(ctx); !errors.As(err, &re) {
		t.Errorf("flush: %v", err)
	}
}
