package kafka

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-relay/cdc-relay/sink"
)

// answerWith is the answer to req that has the same code for each partition.
func answerWith(req *kmsg.ProduceRequest, code int16) kmsg.Response {
	res := req.ResponseKind().(*kmsg.ProduceResponse)
	for _, rt := range req.Topics {
		st := kmsg.NewProduceResponseTopic()
		st.Topic = rt.Topic
		for _, rp := range rt.Partitions {
			sp := kmsg.NewProduceResponseTopicPartition()
			sp.Partition, sp.ErrorCode, sp.BaseOffset = rp.Partition, code, -1
			st.Partitions = append(st.Partitions, sp)
		}
		res.Topics = append(res.Topics, st)
	}
	return res
}

// TestRepeatsAreIdentical: whatever goes wrong and whatever arrives meanwhile, a batch is sent
// again byte for byte until it is acknowledged: the broker recognises it, and a consumer that
// meets two copies sees the same event twice.
func TestRepeatsAreIdentical(t *testing.T) {
	for _, codec := range []string{"none", "lz4", "snappy", "zstd"} {
		t.Run(codec, func(t *testing.T) {
			t.Parallel()
			ctx := testContext(t)
			c := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"))
			var attempts atomic.Int32
			var first []byte
			tries := 0
			onProduce(c, func(req *kmsg.ProduceRequest) (kmsg.Response, error, bool) {
				got := req.Topics[0].Partitions[0].Records
				if first == nil {
					first = bytes.Clone(got)
				} else if !bytes.Equal(got, first) {
					t.Errorf("attempt %d differs from the first:\n%x\n%x", tries+1, got, first)
				}
				tries++
				attempts.Add(1)
				switch tries {
				case 1, 2, 5:
					return nil, errors.New("cut"), true
				case 3:
					return answerWith(req, 7), nil, true
				case 4:
					return answerWith(req, 19), nil, true
				case 6:
					return answerWith(req, 6), nil, true
				}
				first, tries = nil, 0
				return nil, nil, false
			})
			cfg := testConfig(t, c)
			cfg.Compression = codec
			s := open(t, cfg, newRecorder(t))
			var want []*sink.Record
			for round := range 4 {
				poll(t, ctx, "the next attempt", func() bool { return int(attempts.Load()) >= round*2 })
				for range 5 {
					r := record("orders", 0, len(want))
					want = append(want, r)
					produce(t, s, r)
				}
			}
			flush(t, ctx, s)
			got := readAll(t, ctx, c.ListenAddrs(), "orders")[0]
			if len(got) != len(want) {
				t.Fatalf("%d records in the log, want %d", len(got), len(want))
			}
			for i := range got {
				if diff := same(want[i], got[i]); diff != "" {
					t.Errorf("record %d: %s", i, diff)
				}
			}
		})
	}
}

// TestAppendedAllTheSame: a broker that answers with one of these codes may have appended the
// batch. Here it always has.
func TestAppendedAllTheSame(t *testing.T) {
	for _, code := range everyCode[unknown] {
		t.Run(codeName(code), func(t *testing.T) {
			t.Parallel()
			ctx := testContext(t)
			nw := newNetwork()
			c := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(3, "orders"), nw.option())
			h := newRecorder(t)
			s := open(t, testConfig(t, c), h)
			const n = 300
			steady(t, s, "orders", 3, n, func(i int) {
				if i%50 == 0 {
					h.settledTo(ctx, i)
					nw.recode(3, code)
				}
			})
			flush(t, ctx, s)
			if st := s.Stats(); st.Epochs != 0 || st.Retries < 10 {
				t.Errorf("no broker lost a state, and answers were changed: %+v", st)
			}
			if len(h.topics) != 0 {
				t.Errorf("topic states %v", h.topics)
			}
			checkLog(t, ctx, c.ListenAddrs(), "orders", n, nil)
		})
	}
}

// TestSlowAnswer: an answer that comes late, but within the read time-out, belongs to the batch
// that it was sent for, and to no other.
func TestSlowAnswer(t *testing.T) {
	ctx := testContext(t)
	c := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"))
	var seen atomic.Int32
	onProduce(c, func(*kmsg.ProduceRequest) (kmsg.Response, error, bool) {
		if seen.Add(1) <= 3 {
			c.SleepControl(func() { pause(ctx, 150*time.Millisecond) })
		}
		return nil, nil, false
	})
	cfg := testConfig(t, c)
	cfg.ProduceTimeout = 20 * time.Millisecond
	cfg.Compression = "none"
	s := open(t, cfg, newRecorder(t))
	for i := range 30 {
		r := record("orders", 0, i)
		r.Headers[0].Value = make([]byte, 100_000) // a few make a batch, and two requests at a time
		produce(t, s, r)
	}
	flush(t, ctx, s)
	if st := s.Stats(); st.Retries != 0 || st.Reconnects != 0 {
		t.Errorf("an answer that came in time was given up: %+v", st)
	}
	checkLog(t, ctx, c.ListenAddrs(), "orders", 30, nil)
}

// TestAsksForAllReplicas: an ack of the leader alone is lost with it.
func TestAsksForAllReplicas(t *testing.T) {
	ctx := testContext(t)
	c := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(3, "orders"))
	cfg := testConfig(t, c)
	onProduce(c, func(req *kmsg.ProduceRequest) (kmsg.Response, error, bool) {
		if req.Acks != -1 {
			t.Errorf("acks is %d, want -1 (all)", req.Acks)
		}
		if got := time.Duration(req.TimeoutMillis) * time.Millisecond; got != cfg.ProduceTimeout {
			t.Errorf("the broker may wait %s for its replicas, want %s", got, cfg.ProduceTimeout)
		}
		return nil, nil, false
	})
	s := open(t, cfg, newRecorder(t))
	steady(t, s, "orders", 3, 100, nil)
	flush(t, ctx, s)
}

// TestOneBatchInFlight: while a batch isn't answered, nothing of its partition is sent, also where
// there is room for a second request.
func TestOneBatchInFlight(t *testing.T) {
	ctx := testContext(t)
	c := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"))
	release, asked := make(chan struct{}), make(chan struct{}, 1)
	c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		signal(asked)
		c.SleepControl(func() { <-release })
		return nil, nil, false
	})
	s := open(t, testConfig(t, c), newRecorder(t))
	for i := range 50 {
		r := record("orders", 0, i)
		r.Headers[0].Value = make([]byte, 2*largeRequest)
		produce(t, s, r)
	}
	<-asked
	for i := 50; i < 60; i++ { // each wakes the sender
		produce(t, s, record("orders", 0, i))
		pause(ctx, 10*time.Millisecond)
	}
	if n := s.Stats().Requests; n != 1 {
		t.Errorf("%d requests are under way before the first is answered, want 1", n)
	}
	close(release)
	flush(t, ctx, s)
	checkLog(t, ctx, c.ListenAddrs(), "orders", 60, nil)
}

// TestCreatesNoTopic: a topic that isn't there isn't made by looking for it, with a number of
// partitions that nobody chose.
func TestCreatesNoTopic(t *testing.T) {
	ctx := testContext(t)
	c := newCluster(t, kfake.NumBrokers(1), kfake.AllowAutoTopicCreation())
	h := newRecorder(t)
	s := open(t, testConfig(t, c), h)
	if info, err := s.Topic(ctx, "orders"); !errors.Is(err, ErrTopicMissing) {
		t.Fatalf("the topic is %+v, %v; want that it is missing", info, err)
	}
	produce(t, s, record("orders", 0, 0))
	h.await(ctx, "the topic to stop", func() bool { return len(h.topics) == 1 && errors.Is(h.topics[0], ErrTopicMissing) })
	if info, err := s.Topic(ctx, "orders"); !errors.Is(err, ErrTopicMissing) {
		t.Errorf("the topic is %+v, %v; want that it is missing", info, err)
	}
}

// TestCompressedSizeCounts: Kafka measures a batch as it is stored. A record that fits compressed
// is published, also alone in its batch.
func TestCompressedSizeCounts(t *testing.T) {
	for _, codec := range []string{"lz4", "snappy", "zstd"} {
		t.Run(codec, func(t *testing.T) {
			ctx := testContext(t)
			c := newCluster(t, kfake.NumBrokers(1))
			must(t, c.CreateTopic("orders", 1, map[string]string{"max.message.bytes": "20000"}))
			cfg := testConfig(t, c)
			cfg.Compression = codec
			h := newRecorder(t)
			s := open(t, cfg, h)
			for i := range 3 {
				r := record("orders", 0, i)
				r.Value = fmt.Appendf(nil, "value-%d %s", i, bytes.Repeat([]byte("x"), 100_000))
				produce(t, s, r)
				flush(t, ctx, s)
			}
			checkLog(t, ctx, c.ListenAddrs(), "orders", 3, nil)
		})
	}
}

// TestRecordLargerThanABatch: what a batch should hold is our own measure. Whether a record is too
// large is for the broker to say.
func TestRecordLargerThanABatch(t *testing.T) {
	ctx := testContext(t)
	c := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"))
	cfg := testConfig(t, c)
	cfg.Compression, cfg.BatchBytes, cfg.RequestBytes = "none", 10_000, 20_000
	s := open(t, cfg, newRecorder(t))
	for i := range 20 {
		r := record("orders", 0, i)
		if i%3 == 0 {
			r.Headers[0].Value = make([]byte, 50_000)
		}
		produce(t, s, r)
	}
	flush(t, ctx, s)
	checkLog(t, ctx, c.ListenAddrs(), "orders", 20, nil)
}
