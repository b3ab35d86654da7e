package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-relay/cdc-relay/sink"
)

// settleAll is a verdict function that settles everything.
func settleAll(context.Context, *sink.Record, error) (sink.Verdict, error) { return sink.Settled, nil }

// poison makes every k-th record one that rejectWith refuses.
func poison(r *sink.Record, k int) *sink.Record {
	if int(r.Ticket)%k == k/2 {
		r.Headers[0].Value = []byte("poison")
	}
	return r
}

// TestRejectedRecord: one bad record in 200. The other 199 are published in order, and it is
// asked about alone (case B45).
func TestRejectedRecord(t *testing.T) {
	for _, code := range everyCode[rejected] {
		for _, named := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s named=%t", codeName(code), named), func(t *testing.T) {
				t.Parallel()
				ctx := testContext(t)
				c := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"))
				rejectWith(t, c, code, named)
				cfg := testConfig(t, c)
				cfg.Compression = "none"
				h := newRecorder(t)
				h.verdict = settleAll
				s := open(t, cfg, h)
				const n = 200
				for i := range n {
					produce(t, s, poison(record("orders", 0, i), n))
				}
				flush(t, ctx, s)
				if len(h.asked) != 1 || h.asked[0].DedupeKey != "e:100" || h.asked[0].Code != code || h.asked[0].InDoubt {
					t.Errorf("asked about %v", h.asked)
				}
				if named && !strings.Contains(h.asked[0].Error(), "poison") {
					t.Errorf("the broker's message is missing: %v", h.asked[0])
				}
				if named && s.Stats().Requests > 8 {
					t.Errorf("%d requests: what the broker names needn't be searched for", s.Stats().Requests)
				}
				if h.acked != n-1 {
					t.Errorf("%d acks, want %d", h.acked, n-1)
				}
				checkLog(t, ctx, c.ListenAddrs(), "orders", n, func(i int) bool { return i == n/2 })
			})
		}
	}
}

// TestManyRejected: bad records everywhere while connections die.
func TestManyRejected(t *testing.T) {
	for _, named := range []bool{true, false} {
		t.Run(fmt.Sprintf("named=%t", named), func(t *testing.T) {
			t.Parallel()
			ctx := testContext(t)
			nw := newNetwork()
			c := newCluster(t, kfake.NumBrokers(3), kfake.SeedTopics(6, "orders"), nw.option())
			rejectWith(t, c, 87, named)
			cfg := testConfig(t, c)
			cfg.Compression = "none"
			h := newRecorder(t)
			h.verdict = settleAll
			s := open(t, cfg, h)
			const n = 3000
			for i := range n {
				if i%100 == 0 {
					poll(t, ctx, "the ones before", func() bool { return s.settled.Load()+60 >= uint64(i) })
					nw.cutAnswers(1, i%200 == 0)
				}
				produce(t, s, poison(record("orders", int32(i%6), i), 40))
			}
			flush(t, ctx, s)
			bad := func(i int) bool { return i%40 == 20 }
			for i := range n {
				if bad(i) != h.settled[uint64(i)] {
					t.Errorf("record %d: settled by a verdict: %t", i, h.settled[uint64(i)])
				}
			}
			if nw.seen() < 20 {
				t.Errorf("%d answers cut", nw.seen())
			}
			t.Logf("%+v, %d cut", s.Stats(), nw.seen())
			checkLog(t, ctx, c.ListenAddrs(), "orders", n, bad)
		})
	}
}

// TestVerdictWaits: a partition waits for its verdict as long as it takes, the others don't.
// Nothing of it is sent meanwhile, and a verdict of retry sends the record as it was.
func TestVerdictWaits(t *testing.T) {
	ctx := testContext(t)
	c := newCluster(t, kfake.NumBrokers(1))
	if err := c.CreateTopic("orders", 2, map[string]string{"max.message.bytes": "1000"}); err != nil {
		t.Fatal(err)
	}
	cfg := testConfig(t, c)
	cfg.Compression = "none"
	h := newRecorder(t)
	verdicts := make(chan sink.Verdict)
	h.verdict = func(ctx context.Context, _ *sink.Record, _ error) (sink.Verdict, error) {
		select {
		case v := <-verdicts:
			return v, nil
		case <-ctx.Done():
			return sink.Retry, ctx.Err()
		}
	}
	s := open(t, cfg, h)
	big := record("orders", 0, 0)
	big.Value = []byte("value-0 " + strings.Repeat("x", 2000))
	produce(t, s, big, record("orders", 0, 1))
	h.await(ctx, "the question", func() bool { return len(h.asked) == 1 })
	for i := 2; i < 500; i++ {
		produce(t, s, record("orders", 1, i))
	}
	h.settledTo(ctx, 498)
	verdicts <- sink.Retry
	h.await(ctx, "the second question", func() bool { return len(h.asked) == 2 })
	if re := h.asked[1]; re.Code != codeMessageTooLarge || re.Bytes < 2000 {
		t.Errorf("asked about %+v", re)
	}
	// The limit is raised, and the record heals.
	raise := kmsg.NewPtrIncrementalAlterConfigsRequest()
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeTopic, "orders"
	cf := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	cf.Name, cf.Value = "max.message.bytes", kmsg.StringPtr("100000")
	res.Configs = append(res.Configs, cf)
	raise.Resources = append(raise.Resources, res)
	ask(t, ctx, c, raise)
	verdicts <- sink.Retry
	flush(t, ctx, s)
	checkLog(t, ctx, c.ListenAddrs(), "orders", 500, nil)
}

// TestVerdictFails: an error counts as retry later.
func TestVerdictFails(t *testing.T) {
	ctx := testContext(t)
	c := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"))
	h := newRecorder(t)
	n := 0
	h.verdict = func(context.Context, *sink.Record, error) (sink.Verdict, error) {
		if n++; n < 3 {
			return sink.Settled, errors.New("the database is away")
		}
		return sink.Settled, nil
	}
	s := open(t, testConfig(t, c), h)
	r := record("orders", 0, 0)
	r.TimestampMs = -1
	produce(t, s, r, record("orders", 0, 1))
	flush(t, ctx, s)
	if len(h.asked) != 3 {
		t.Errorf("asked %d times, want 3", len(h.asked))
	}
}

// TestImpossibleRecords: what can't even be put into a request is asked about alone, in its
// turn, and spoils nobody's request.
func TestImpossibleRecords(t *testing.T) {
	ctx := testContext(t)
	c := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(2, "orders"))
	h := newRecorder(t)
	h.verdict = settleAll
	s := open(t, testConfig(t, c), h)
	bad := func(i int) bool { return i%30 == 10 }
	const n = 300
	for i := range n {
		r := record("orders", int32(i%2), i)
		switch {
		case bad(i) && i%60 == 10:
			r.TimestampMs = -1
		case bad(i):
			r.TimestampMs = maxTimestampMs + 1
		case i == 5:
			r.TimestampMs = 0 // the first of all
		case i == 7:
			r.TimestampMs = maxTimestampMs
		}
		produce(t, s, r)
	}
	name := record("a topic", 0, 0)
	produce(t, s, name)
	flush(t, ctx, s)
	if len(h.asked) != n/30+1 {
		t.Errorf("asked %d times, want %d", len(h.asked), n/30+1)
	}
	for _, re := range h.asked {
		if re.Code != 0 || re.Message == "" {
			t.Errorf("asked about %+v", re)
		}
	}
	log := readAll(t, ctx, c.ListenAddrs(), "orders")
	if got := log[1][2].Timestamp.UnixMilli(); got != 0 {
		t.Errorf("timestamp %d, want 0", got)
	}
	if got := log[1][3].Timestamp.UnixMilli(); got != maxTimestampMs {
		t.Errorf("timestamp %d, want %d", got, maxTimestampMs)
	}
	checkLog(t, ctx, c.ListenAddrs(), "orders", n, bad)
}

func TestFlaws(t *testing.T) {
	r := record("orders", 0, 0)
	limit := int(sarama.MaxRequestSize) - batchOverhead - requestOverhead - len(r.Topic)
	for _, x := range []struct {
		size int
		ms   int64
		want flaw
	}{
		{100, 0, sound},
		{limit, 1, sound},
		{limit + 1, 1, tooLarge},
		{100, -1, badTimestamp},
		{100, maxTimestampMs, sound},
		{100, maxTimestampMs + 1, badTimestamp},
	} {
		r.TimestampMs = x.ms
		if got := flawOf(r, x.size); got != x.want {
			t.Errorf("size %d, time %d: flaw %d, want %d", x.size, x.ms, got, x.want)
		}
	}
	for name, want := range map[string]bool{
		"orders": true, "a.b_c-D9": true, strings.Repeat("x", 249): true,
		"": false, ".": false, "..": false, "a b": false, "a/b": false, "é": false, strings.Repeat("x", 250): false,
	} {
		if validTopic(name) != want {
			t.Errorf("validTopic(%q) = %t", name, !want)
		}
	}
}

// TestUnencodable: sarama refuses a request as a whole. Whose fault it is shows when each
// partition is alone; nobody else is asked about.
func TestUnencodable(t *testing.T) {
	ctx := testContext(t)
	c := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(6, "orders"))
	h := newRecorder(t)
	h.verdict = settleAll
	s := open(t, testConfig(t, c), h)
	steady(t, s, "orders", 6, 6, nil)
	flush(t, ctx, s)
	hold := make(chan struct{})
	c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		<-hold // the first request; the others gather
		return nil, nil, false
	})
	for i := 6; i < 66; i++ {
		r := record("orders", int32(i%6), i)
		if i != 8 {
			produce(t, s, r)
			continue
		}
		// Past the check that would have found it.
		p := s.topics["orders"].partition(r.Partition)
		s.taken.Add(1)
		p.taken.Add(1)
		r.TimestampMs = -5
		p.handle(event{kind: evAppend, record: r, size: int32(recordSize(r))})
	}
	close(hold)
	flush(t, ctx, s)
	if len(h.asked) != 1 || h.asked[0].DedupeKey != "e:8" {
		t.Errorf("asked about %v", h.asked)
	}
	checkLog(t, ctx, c.ListenAddrs(), "orders", 66, func(i int) bool { return i == 8 })
}

// TestRefusedInDoubt: the first record is refused after an attempt without an answer. The
// broker is asked whether the whole is in its log before the verdict is.
func TestRefusedInDoubt(t *testing.T) {
	for _, tells := range []bool{true, false} {
		t.Run(fmt.Sprintf("tells=%t", tells), func(t *testing.T) {
			ctx := testContext(t)
			c := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"))
			var cut atomic.Bool
			var id, probes atomic.Int64
			onProduce(c, func(req *kmsg.ProduceRequest) (kmsg.Response, error, bool) {
				var rb kmsg.RecordBatch
				if err := rb.ReadFrom(req.Topics[0].Partitions[0].Records); err != nil {
					t.Error(err)
				}
				id.Store(rb.ProducerID)
				if cut.CompareAndSwap(true, false) {
					return nil, errors.New("cut"), true
				}
				return nil, nil, false
			})
			// kfake only tells of transactional producers; Kafka of all.
			c.ControlKey(int16(kmsg.DescribeProducers), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
				c.KeepControl()
				probes.Add(1)
				return describeProducers(kreq, tells, id.Load()), nil, true
			})
			rejectWith(t, c, 87, true)
			cfg := testConfig(t, c)
			cfg.Compression = "none"
			h := newRecorder(t)
			h.verdict = settleAll
			s := open(t, cfg, h)
			produce(t, s, record("orders", 0, 0))
			flush(t, ctx, s)
			cut.Store(true)
			bad := record("orders", 0, 1)
			bad.Headers[0].Value = []byte("poison")
			produce(t, s, bad, record("orders", 0, 2), record("orders", 0, 3))
			flush(t, ctx, s)
			if len(h.asked) != 1 || h.asked[0].InDoubt == tells {
				t.Errorf("asked about %+v", h.asked)
			}
			if probes.Load() == 0 {
				t.Error("the broker wasn't asked")
			}
			checkLog(t, ctx, c.ListenAddrs(), "orders", 4, func(i int) bool { return i == 1 })
		})
	}
}

// describeProducers answers that producer id is at sequence 0, or that nobody may know.
func describeProducers(kreq kmsg.Request, tells bool, id int64) kmsg.Response {
	res := kreq.ResponseKind().(*kmsg.DescribeProducersResponse)
	st := kmsg.NewDescribeProducersResponseTopic()
	st.Topic = "orders"
	sp := kmsg.NewDescribeProducersResponseTopicPartition()
	if tells {
		for _, other := range []int64{id + 100, id} {
			ap := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
			ap.ProducerID, ap.LastSequence = other, int32(other-id)
			sp.ActiveProducers = append(sp.ActiveProducers, ap)
		}
	} else {
		sp.ErrorCode = kerr.TopicAuthorizationFailed.Code
	}
	st.Partitions = append(st.Partitions, sp)
	res.Topics = append(res.Topics, st)
	return res
}

// ask sends a request to a cluster.
func ask(t testing.TB, ctx context.Context, c *kfake.Cluster, req kmsg.Request) {
	t.Helper()
	if _, err := client(t, c.ListenAddrs()).Request(ctx, req); err != nil {
		t.Fatal(err)
	}
}
