package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// steady produces n records over the partitions of a topic, a few at a time, and calls
// at(i) before each.
func steady(t testing.TB, s *Sink, topic string, partitions, n int, at func(i int)) {
	t.Helper()
	for i := range n {
		if at != nil {
			at(i)
		}
		produce(t, s, record(topic, int32(i%50%partitions), i))
	}
}

// settledTo waits until n records are acknowledged.
func (h *recorder) settledTo(ctx context.Context, n int) {
	h.t.Helper()
	h.await(ctx, fmt.Sprintf("%d acks", n), func() bool { return h.acked >= n })
}

func TestRetriableCodes(t *testing.T) {
	for _, cl := range []class{moved, refused, unknown} {
		for _, code := range everyCode[cl] {
			t.Run(codeName(code), func(t *testing.T) {
				t.Parallel()
				ctx := testContext(t)
				c := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(3, "orders"))
				h := newRecorder(t)
				s := open(t, testConfig(t, c), h)
				const n, hits = 300, 12 // enough to halve a batch down to one record, if that were right
				var fault *kfake.FaultHandle
				steady(t, s, "orders", 3, n, func(i int) {
					if i == 100 {
						h.settledTo(ctx, 100)
						fault = c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: &kerr.Error{Code: code, Message: "TEST"}, Count: hits})
					}
				})
				flush(t, ctx, s)
				if fault.Hits() != hits {
					t.Errorf("%d faults hit, want %d", fault.Hits(), hits)
				}
				if len(h.topics) != 0 {
					t.Errorf("topic states %v", h.topics)
				}
				checkLog(t, ctx, c.ListenAddrs(), "orders", n, nil)
			})
		}
	}
}

func TestTopicStopsAndHeals(t *testing.T) {
	codes := append([]int16{999, 1, 16, 23, 48, 53, 58, 88, 91}, everyCode[stopped]...)
	for _, code := range append(codes, everyCode[missing]...) {
		t.Run(codeName(code), func(t *testing.T) {
			t.Parallel()
			ctx := testContext(t)
			c := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(3, "orders"))
			h := newRecorder(t)
			s := open(t, testConfig(t, c), h)
			fault := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: &kerr.Error{Code: code, Message: "TEST"}, Count: -1})
			const n = 50
			steady(t, s, "orders", 3, n, nil)
			h.await(ctx, "the topic to stop", func() bool { return len(h.topics) == 1 })
			var te *TopicError
			if err := h.topics[0]; !errors.As(err, &te) || te.Code != code {
				t.Errorf("topic state %v", err)
			}
			want := ErrTopicRefused
			switch classify(code) {
			case missing:
				want = ErrTopicMissing
			case stopped:
				if code == codeTopicAuth || code == codeClusterAuth {
					want = ErrUnauthorized
				}
			}
			if !errors.Is(h.topics[0], want) {
				t.Errorf("topic state %v, want %v", h.topics[0], want)
			}
			fault.Remove()
			flush(t, ctx, s)
			h.await(ctx, "the topic to heal", func() bool { return len(h.topics) == 2 && h.topics[1] == nil })
			if len(h.asked) != 0 {
				t.Errorf("a verdict was asked: %v", h.asked[0])
			}
			checkLog(t, ctx, c.ListenAddrs(), "orders", n, nil)
		})
	}
}

// TestLogRegressed: an error about the sequence of what was never sent before says that the
// log lost what it had acknowledged. The topic stops, all of it, and says from where to replay.
func TestLogRegressed(t *testing.T) {
	for _, code := range []int16{45, 46, 47, 49, 90} {
		t.Run(codeName(code), func(t *testing.T) {
			t.Parallel()
			ctx := testContext(t)
			c := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(3, "orders"))
			h := newRecorder(t)
			s := open(t, testConfig(t, c), h)
			steady(t, s, "orders", 3, 30, nil)
			flush(t, ctx, s)
			c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Partitions: []int32{1}, Err: &kerr.Error{Code: code, Message: "TEST"}})
			produce(t, s, record("orders", 1, 100))
			h.await(ctx, "the topic to stop", func() bool { return len(h.topics) == 1 })
			var re *RegressedError
			if !errors.As(h.topics[0], &re) || re.Partition != 1 || re.From.Commit != 1001 || re.Last.Commit != 1028 {
				t.Errorf("topic state %#v", h.topics[0])
			}
			for _, p := range s.partitions() {
				poll(t, ctx, "all partitions to halt", func() bool {
					p.mu.Lock()
					defer p.mu.Unlock()
					return p.lane.closed || p.lane.state == halted
				})
			}
			produce(t, s, record("orders", 0, 101), record("orders", 2, 102))
			if err := s.Flush(ctx); !errors.As(err, &re) {
				t.Errorf("flush: %v", err)
			}
			if left, _ := s.Close(ctx); left != 3 {
				t.Errorf("%d unsettled, want 3", left)
			}
			checkLog(t, ctx, c.ListenAddrs(), "orders", 30, nil)
		})
	}
}

func TestUnknownProducer(t *testing.T) {
	ctx := testContext(t)
	c := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"))
	ids := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, Observe: true, Count: -1})
	h := newRecorder(t)
	s := open(t, testConfig(t, c), h)
	for i := range 3 {
		c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.UnknownProducerID})
		produce(t, s, record("orders", 0, i))
		flush(t, ctx, s)
	}
	if ids.Hits() != 4 {
		t.Errorf("%d producer ids, want 4", ids.Hits())
	}
	checkLog(t, ctx, c.ListenAddrs(), "orders", 3, nil)
}

// TestSequenceErrorInDoubt: lost before the append, and then the broker knows another
// sequence: a new epoch, and nothing is lost or repeated.
func TestSequenceErrorInDoubt(t *testing.T) {
	for _, code := range everyCode[sequence] {
		t.Run(codeName(code), func(t *testing.T) {
			ctx := testContext(t)
			c := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"))
			h := newRecorder(t)
			s := open(t, testConfig(t, c), h)
			produce(t, s, record("orders", 0, 0))
			flush(t, ctx, s)
			step := 0
			var epochs []int16
			onProduce(c, func(req *kmsg.ProduceRequest) (kmsg.Response, error, bool) {
				var rb kmsg.RecordBatch
				if err := rb.ReadFrom(req.Topics[0].Partitions[0].Records); err != nil {
					t.Error(err)
				}
				epochs = append(epochs, rb.ProducerEpoch)
				step++
				switch step {
				case 1:
					return nil, errors.New("cut"), true
				case 2:
					c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: &kerr.Error{Code: code, Message: "TEST"}})
				}
				return nil, nil, false
			})
			produce(t, s, record("orders", 0, 1))
			flush(t, ctx, s)
			if got := fmt.Sprint(epochs); got != "[0 0 1]" {
				t.Errorf("epochs %s, want [0 0 1]", got)
			}
			checkLog(t, ctx, c.ListenAddrs(), "orders", 2, nil)
		})
	}
}

func TestCutConnections(t *testing.T) {
	for _, x := range []struct {
		name string
		cut  func(c *kfake.Cluster, n *network)
	}{
		{"before the append", func(c *kfake.Cluster, n *network) {
			c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
				return nil, errors.New("cut"), true
			})
		}},
		{"after the append", func(c *kfake.Cluster, n *network) { n.cutAnswers(1, false) }},
		{"in the answer", func(c *kfake.Cluster, n *network) { n.cutAnswers(1, true) }},
		{"all at once", func(c *kfake.Cluster, n *network) { n.away(true); n.away(false) }},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			ctx := testContext(t)
			n := newNetwork()
			c := newCluster(t, kfake.NumBrokers(3), kfake.SeedTopics(12, "orders"), n.option())
			h := newRecorder(t)
			s := open(t, testConfig(t, c), h)
			const total = 6000
			steady(t, s, "orders", 12, total, func(i int) {
				if i%300 == 299 {
					h.settledTo(ctx, i-250)
					x.cut(c, n)
				}
			})
			flush(t, ctx, s)
			st := s.Stats()
			if st.Reconnects < 5 {
				t.Errorf("nothing was cut: %+v", st)
			}
			t.Logf("%+v", st)
			checkLog(t, ctx, c.ListenAddrs(), "orders", total, nil)
		})
	}
}

// TestCutOften: a connection that dies on the same batch again and again leads to halves,
// which must not lose or repeat what was appended each time.
func TestCutOften(t *testing.T) {
	ctx := testContext(t)
	n := newNetwork()
	c := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"), n.option())
	h := newRecorder(t)
	s := open(t, testConfig(t, c), h)
	produce(t, s, record("orders", 0, 0))
	flush(t, ctx, s)
	for _, cuts := range []int{3, 5, 6, 7, 12} {
		n.cutAnswers(cuts, false)
		for range 20 {
			produce(t, s, record("orders", 0, int(s.taken.Load())))
		}
		flush(t, ctx, s)
	}
	if n.seen() != 33 {
		t.Errorf("%d answers cut, want 33", n.seen())
	}
	checkLog(t, ctx, c.ListenAddrs(), "orders", 101, nil)
}

// TestTooLargeForTheBroker: a broker that closes the connection on large requests, and says
// nothing, gets smaller ones.
func TestTooLargeForTheBroker(t *testing.T) {
	ctx := testContext(t)
	c := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(2, "orders"))
	largest := 0
	hold := make(chan struct{})
	onProduce(c, func(req *kmsg.ProduceRequest) (kmsg.Response, error, bool) {
		if hold != nil {
			<-hold // so that a large batch gathers
			hold = nil
		}
		for _, rp := range req.Topics[0].Partitions {
			if n := len(records(t, rp.Records)); n > 10 {
				return nil, errors.New("too large"), true
			} else if n > largest {
				largest = n
			}
		}
		return nil, nil, false
	})
	cfg := testConfig(t, c)
	cfg.Compression = "none"
	h := newRecorder(t)
	s := open(t, cfg, h)
	steady(t, s, "orders", 2, 200, nil)
	close(hold)
	flush(t, ctx, s)
	if largest < 6 {
		t.Errorf("the largest batch had %d records", largest)
	}
	checkLog(t, ctx, c.ListenAddrs(), "orders", 200, nil)
}

func TestLeaderMoves(t *testing.T) {
	ctx := testContext(t)
	c := newCluster(t, kfake.NumBrokers(3), kfake.SeedTopics(12, "orders"))
	h := newRecorder(t)
	s := open(t, testConfig(t, c), h)
	const n = 20000
	steady(t, s, "orders", 12, n, func(i int) {
		if i%500 == 250 {
			h.settledTo(ctx, i-400)
			c.ShufflePartitionLeaders()
		}
	})
	flush(t, ctx, s)
	if s.Stats().Retries == 0 {
		t.Error("nothing had to be sent again")
	}
	checkLog(t, ctx, c.ListenAddrs(), "orders", n, nil)
}

// TestHungBroker: a request that is never answered is sent again on a new connection. The
// first one was appended.
func TestHungBroker(t *testing.T) {
	ctx := testContext(t)
	c := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(3, "orders"))
	cfg := testConfig(t, c)
	cfg.ReadTimeout, cfg.ProduceTimeout = 300*time.Millisecond, 100*time.Millisecond
	h := newRecorder(t)
	s := open(t, cfg, h)
	steady(t, s, "orders", 3, 100, nil)
	flush(t, ctx, s)
	var hung atomic.Int32
	onProduce(c, func(req *kmsg.ProduceRequest) (kmsg.Response, error, bool) {
		return nil, nil, hung.Add(1) <= 3
	})
	for i := 100; i < 200; i++ {
		produce(t, s, record("orders", int32(i%3), i))
	}
	flush(t, ctx, s)
	if hung.Load() < 4 {
		t.Errorf("%d requests, want more than the 3 hung ones", hung.Load())
	}
	checkLog(t, ctx, c.ListenAddrs(), "orders", 200, nil)
}

func TestProducerIDs(t *testing.T) {
	ctx := testContext(t)
	c := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(8, "orders"))
	// Just after a start a broker answers so. The second is worse: no error, and -1.
	var asked atomic.Int32
	c.ControlKey(int16(kmsg.InitProducerID), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		res := kreq.ResponseKind().(*kmsg.InitProducerIDResponse)
		res.ProducerID, res.ProducerEpoch = -1, -1
		switch n := asked.Add(1); {
		case n <= 4:
			res.ErrorCode = kerr.CoordinatorLoadInProgress.Code
		case n <= 8:
		case n <= 10:
			return nil, errors.New("cut"), true
		default:
			return nil, nil, false
		}
		return res, nil, true
	})
	var mu sync.Mutex
	ids := make(map[int64]int32)
	onProduce(c, func(req *kmsg.ProduceRequest) (kmsg.Response, error, bool) {
		mu.Lock()
		defer mu.Unlock()
		for _, rp := range req.Topics[0].Partitions {
			var rb kmsg.RecordBatch
			if err := rb.ReadFrom(rp.Records); err != nil {
				t.Error(err)
			}
			if p, ok := ids[rb.ProducerID]; ok && p != rp.Partition || rb.ProducerID < 0 {
				t.Errorf("partition %d has producer id %d, which partition %d has", rp.Partition, rb.ProducerID, p)
			}
			ids[rb.ProducerID] = rp.Partition
		}
		return nil, nil, false
	})
	s := open(t, testConfig(t, c), newRecorder(t))
	steady(t, s, "orders", 8, 800, nil)
	flush(t, ctx, s)
	if len(ids) != 8 {
		t.Errorf("%d producer ids, want 8", len(ids))
	}
	checkLog(t, ctx, c.ListenAddrs(), "orders", 800, nil)
}

// TestNoPermissionForIDs: before Kafka 3.0 idempotence needs a permission of its own.
func TestNoPermissionForIDs(t *testing.T) {
	ctx := testContext(t)
	c := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"))
	fault := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, TopLevel: true, Err: kerr.ClusterAuthorizationFailed, Count: -1})
	h := newRecorder(t)
	s := open(t, testConfig(t, c), h)
	produce(t, s, record("orders", 0, 0))
	h.await(ctx, "the topic to stop", func() bool { return len(h.topics) == 1 && errors.Is(h.topics[0], ErrUnauthorized) })
	fault.Remove()
	flush(t, ctx, s)
	h.await(ctx, "the topic to heal", func() bool { return len(h.topics) == 2 && h.topics[1] == nil })
}
