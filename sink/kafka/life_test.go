package kafka

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-relay/cdc-relay/sink"
)

// TestOutages: brokers go away under load and come back, again and again.
func TestOutages(t *testing.T) {
	ctx := testContext(t)
	nw := newNetwork()
	c := newCluster(t, kfake.NumBrokers(3), kfake.SeedTopics(12, "orders"), nw.option())
	h := newRecorder(t)
	s := open(t, testConfig(t, c), h)
	const n = 5000
	steady(t, s, "orders", 12, n, func(i int) {
		switch i % 1000 {
		case 300:
			h.settledTo(ctx, i-200)
			nw.away(true)
		case 600:
			pause(ctx, 100*time.Millisecond)
			nw.away(false)
		}
	})
	flush(t, ctx, s)
	t.Logf("%+v", s.Stats())
	checkLog(t, ctx, c.ListenAddrs(), "orders", n, nil)
}

// TestOutage is case B43: 6,000 messages of one key and of 50, the only broker away for 2 s
// and for 15 s from the 2,000th on. Nothing is missing, repeated or out of order, and
// publishing goes on soon after it is back.
func TestOutage(t *testing.T) {
	for _, away := range []time.Duration{2 * time.Second, 15 * time.Second} {
		if away > 2*time.Second && testing.Short() {
			continue
		}
		for _, keys := range []int{1, 50} {
			t.Run(fmt.Sprintf("%s, %d keys", away, keys), func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(context.Background(), testTimeout+away)
				defer cancel()
				nw := newNetwork()
				c := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(6, "orders"), nw.option())
				h := newRecorder(t)
				cfg := testConfig(t, c)
				cfg.MinBackoff, cfg.MaxBackoff = 0, 0 // as in production
				s := open(t, cfg, h)
				const n = 6000
				steady(t, s, "orders", min(keys, 6), n, func(i int) {
					if i == 2000 {
						h.settledTo(ctx, 1000)
						nw.away(true)
					}
				})
				pause(ctx, away)
				nw.away(false)
				back := time.Now()
				before := s.Stats().Acked
				poll(t, ctx, "the first ack", func() bool { return s.Stats().Acked > before })
				t.Logf("first ack %s after the broker was back", time.Since(back).Round(time.Millisecond))
				flush(t, ctx, s)
				checkLog(t, ctx, c.ListenAddrs(), "orders", n, nil)
			})
		}
	}
}

// TestNoKafkaYet: a sink opens, takes records and waits; Kafka comes later.
func TestNoKafkaYet(t *testing.T) {
	ctx := testContext(t)
	nw := newNetwork()
	c := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(3, "orders"), nw.option())
	nw.away(true)
	h := newRecorder(t)
	s := open(t, testConfig(t, c), h)
	steady(t, s, "orders", 3, 100, nil)
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if err := s.Flush(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("flush without Kafka: %v", err)
	}
	nw.away(false)
	flush(t, ctx, s)
	checkLog(t, ctx, c.ListenAddrs(), "orders", 100, nil)
}

// TestCloseUnderLoad: a close stops at once, and what it reports as unsettled, and what it
// acknowledged before, is all there is.
func TestCloseUnderLoad(t *testing.T) {
	for i := range 20 {
		ctx := testContext(t)
		c := newCluster(t, kfake.NumBrokers(2), kfake.SeedTopics(6, "orders"))
		h := newRecorder(t)
		s := open(t, testConfig(t, c), h)
		n := 0
		for ; n < 2000+i*100; n++ {
			produce(t, s, record("orders", int32(n%6), n))
		}
		left, err := s.Close(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if h.acked+left != n {
			t.Errorf("%d acks and %d unsettled, want %d", h.acked, left, n)
		}
		if again, _ := s.Close(ctx); again != left {
			t.Errorf("a second close says %d, the first %d", again, left)
		}
		if err := s.Produce(ctx, record("orders", 0, n)); !errors.Is(err, sink.ErrClosed) {
			t.Errorf("produce to a closed sink: %v", err)
		}
		ends, err := endOffsets(ctx, client(t, c.ListenAddrs()), "orders")
		if err != nil {
			t.Fatal(err)
		}
		inLog := 0
		for _, e := range ends {
			inLog += int(e)
		}
		if inLog != h.acked {
			// Close waits for what the brokers owe.
			t.Errorf("%d in the log, %d acknowledged", inLog, h.acked)
		}
	}
}

// TestCloseHung: a broker that doesn't answer holds a close up no longer than its context.
func TestCloseHung(t *testing.T) {
	for _, key := range []kmsg.Key{kmsg.Produce, kmsg.Metadata, kmsg.InitProducerID, kmsg.ApiVersions} {
		t.Run(key.Name(), func(t *testing.T) {
			c := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(3, "orders"))
			hangs := make(chan struct{}, 1)
			c.ControlKey(int16(key), func(kmsg.Request) (kmsg.Response, error, bool) {
				c.KeepControl()
				signal(hangs)
				return nil, nil, true
			})
			cfg := testConfig(t, c)
			cfg.ReadTimeout, cfg.ProduceTimeout = 10*time.Second, time.Second
			s := open(t, cfg, newRecorder(t))
			steady(t, s, "orders", 3, 100, nil)
			<-hangs
			ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			defer cancel()
			done := make(chan int)
			go func() {
				left, _ := s.Close(ctx)
				done <- left
			}()
			select {
			case left := <-done:
				if left != 100 {
					t.Errorf("%d unsettled, want 100", left)
				}
			case <-time.After(5 * time.Second):
				t.Error("close hangs")
				<-done
			}
		})
	}
}

// TestCloseWhileAsking: the context that Reject got ends.
func TestCloseWhileAsking(t *testing.T) {
	ctx := testContext(t)
	c := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"))
	h := newRecorder(t)
	h.verdict = func(ctx context.Context, _ *sink.Record, _ error) (sink.Verdict, error) {
		<-ctx.Done()
		return sink.Retry, ctx.Err()
	}
	s := open(t, testConfig(t, c), h)
	r := record("orders", 0, 0)
	r.TimestampMs = -1
	produce(t, s, r, record("orders", 0, 1))
	h.await(ctx, "the question", func() bool { return len(h.asked) == 1 })
	if left, err := s.Close(ctx); left != 2 || err != nil {
		t.Errorf("%d unsettled, %v; want 2", left, err)
	}
}

func TestProduceErrors(t *testing.T) {
	c := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"))
	s := open(t, testConfig(t, c), newRecorder(t))
	if err := s.Produce(context.Background(), record("orders", -1, 0)); err == nil {
		t.Error("partition -1 was taken")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Produce(ctx, record("orders", 0, 0)); !errors.Is(err, context.Canceled) {
		t.Errorf("ended context: %v", err)
	}
	if st := s.Stats(); st.Taken != 0 {
		t.Errorf("%d taken", st.Taken)
	}
}

// TestMemory: nothing keeps a record once it is settled.
func TestMemory(t *testing.T) {
	ctx := testContext(t)
	nw := newNetwork()
	c := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(3, "orders"), nw.option())
	h := newRecorder(t)
	h.verdict = settleAll
	s := open(t, testConfig(t, c), h)
	var refs []weak.Pointer[sink.Record]
	for i := range 3000 {
		r := record("orders", int32(i%3), i)
		if i%500 == 100 {
			r.TimestampMs = -1
		}
		if i%500 == 200 {
			nw.cutAnswers(1, false)
		}
		refs = append(refs, weak.Make(r))
		produce(t, s, r)
	}
	flush(t, ctx, s)
	poll(t, ctx, "the records to be released", func() bool {
		runtime.GC()
		for _, r := range refs {
			if r.Value() != nil {
				return false
			}
		}
		return true
	})
}
