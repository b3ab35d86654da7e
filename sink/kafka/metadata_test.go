package kafka

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestMissingTopicAppears(t *testing.T) {
	ctx := testContext(t)
	c := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "other"))
	h := newRecorder(t)
	s := open(t, testConfig(t, c), h)
	steady(t, s, "orders", 3, 30, nil)
	h.await(ctx, "the topic to stop", func() bool { return len(h.topics) == 1 && errors.Is(h.topics[0], ErrTopicMissing) })
	produce(t, s, record("other", 0, 1000)) // the others go on
	h.settledTo(ctx, 1)
	if err := c.CreateTopic("orders", 3, nil); err != nil {
		t.Fatal(err)
	}
	flush(t, ctx, s)
	h.await(ctx, "the topic to heal", func() bool { return len(h.topics) == 2 && h.topics[1] == nil })
	checkLog(t, ctx, c.ListenAddrs(), "orders", 30, nil)
}

func TestMissingPartitionAppears(t *testing.T) {
	ctx := testContext(t)
	c := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(2, "orders"))
	h := newRecorder(t)
	s := open(t, testConfig(t, c), h)
	for i := range 30 {
		produce(t, s, record("orders", int32(i%3), i))
	}
	h.await(ctx, "the topic to stop", func() bool { return len(h.topics) == 1 && errors.Is(h.topics[0], ErrTopicMissing) })
	if !strings.Contains(h.topics[0].Error(), "partition 2") || !strings.Contains(h.topics[0].Error(), "2 partitions") {
		t.Errorf("topic state %v", h.topics[0])
	}
	grow := kmsg.NewPtrCreatePartitionsRequest()
	gt := kmsg.NewCreatePartitionsRequestTopic()
	gt.Topic, gt.Count = "orders", 3
	grow.Topics = append(grow.Topics, gt)
	ask(t, ctx, c, grow)
	flush(t, ctx, s)
	h.await(ctx, "the topic to heal", func() bool { return len(h.topics) == 2 && h.topics[1] == nil })
	checkLog(t, ctx, c.ListenAddrs(), "orders", 30, nil)
}

// TestTopicMadeAgain: another topic of the same name hasn't got what was acknowledged.
func TestTopicMadeAgain(t *testing.T) {
	for _, quiet := range []bool{false, true} {
		t.Run(fmt.Sprintf("quiet=%t", quiet), func(t *testing.T) {
			ctx := testContext(t)
			c := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(2, "orders"))
			h := newRecorder(t)
			cfg := testConfig(t, c)
			if quiet {
				cfg.MetadataInterval = 20 * time.Millisecond
			}
			s := open(t, cfg, h)
			steady(t, s, "orders", 2, 20, nil)
			flush(t, ctx, s)
			if err := c.DeleteTopic("orders"); err != nil {
				t.Fatal(err)
			}
			if err := c.CreateTopic("orders", 2, nil); err != nil {
				t.Fatal(err)
			}
			if !quiet {
				produce(t, s, record("orders", 0, 20))
			}
			h.await(ctx, "the topic to stop", func() bool { return len(h.topics) >= 1 && h.topics[len(h.topics)-1] != nil })
			var re *RegressedError
			if err := h.topics[len(h.topics)-1]; !errors.As(err, &re) || re.From.Commit != 1000 || re.Last.Commit < 1018 {
				t.Errorf("topic state %v", err)
			}
			if h.acked != 20 {
				t.Errorf("%d acks, want 20", h.acked)
			}
		})
	}
}

// TestAnotherTopicOfTheName: metadata with another topic id halt the topic if records were
// acknowledged under the old one, and nothing otherwise.
func TestAnotherTopicOfTheName(t *testing.T) {
	for _, acked := range []string{"nothing", "with an offset", "without an offset"} {
		published := acked != "nothing"
		b, ps := standing(t, 2)
		tp := b.sink.topicNamed("orders")
		meta := func(id byte) *sarama.TopicMetadata {
			return &sarama.TopicMetadata{Name: "orders", Uuid: sarama.Uuid{id}, Partitions: []*sarama.PartitionMetadata{{ID: 0}, {ID: 1}}}
		}
		nodes := map[int32]*broker{0: b}
		tp.learn(meta(1), nodes)
		if published {
			req := b.collect()
			b.inFlight = 1
			res := new(sarama.ProduceResponse)
			res.AddTopicPartition("orders", 0, sarama.ErrNoError)
			res.AddTopicPartition("orders", 1, sarama.ErrNoError)
			for _, block := range res.Blocks["orders"] {
				if acked == "without an offset" {
					block.Offset = -1
				}
			}
			b.answered(req, res, nil, unknown)
		}
		tp.learn(meta(1), nodes)
		tp.learn(meta(0), nodes) // from a broker that is older than topic ids
		if err := tp.dead(); err != nil {
			t.Fatalf("the same topic: %v", err)
		}
		tp.learn(meta(2), nodes)
		err := tp.dead()
		var re *RegressedError
		if published && (!errors.As(err, &re) || re.Last.Commit != 1001) || !published && err != nil {
			t.Errorf("another topic, acknowledged %s: %v", acked, err)
		}
		if err == nil {
			continue
		}
		poll(t, testContext(t), "all partitions to halt", func() bool {
			for _, p := range ps {
				p.mu.Lock()
				still := !p.lane.closed
				p.mu.Unlock()
				if still {
					return false
				}
			}
			return true
		})
		if p := tp.partition(7); !p.lane.closed {
			t.Error("a partition that is used for the first time goes on in a halted topic")
		}
	}
}

// TestLearnLeaders: a partition is sent to its leader, also while a replica of it is away, and to
// nobody while there is none.
func TestLearnLeaders(t *testing.T) {
	b, ps := standing(t, 5)
	other := &broker{sink: b.sink, id: 1, wake: make(chan struct{}, 1)}
	part := func(id, leader int32, err sarama.KError) *sarama.PartitionMetadata {
		return &sarama.PartitionMetadata{ID: id, Leader: leader, Err: err}
	}
	b.sink.topicNamed("orders").learn(&sarama.TopicMetadata{Name: "orders", Partitions: []*sarama.PartitionMetadata{
		part(4, 9, sarama.ErrNoError), // a broker that nobody knows
		part(0, 1, sarama.ErrNoError),
		part(3, 0, sarama.ErrNoError),
		part(1, 1, sarama.ErrReplicaNotAvailable),
		part(2, -1, sarama.ErrLeaderNotAvailable),
	}}, map[int32]*broker{0: b, 1: other})
	name := map[*broker]string{b: "broker 0", other: "broker 1", nil: "nobody"}
	for i, want := range []*broker{other, other, nil, b, nil} {
		ps[i].mu.Lock()
		if got := ps[i].route; got != want {
			t.Errorf("partition %d is sent to %s, want %s", i, name[got], name[want])
		}
		ps[i].mu.Unlock()
	}
}

// TestMetadataDenied: a topic that the metadata may not tell of stops, and heals.
func TestMetadataDenied(t *testing.T) {
	for _, x := range []struct {
		err  *kerr.Error
		want error
	}{{kerr.TopicAuthorizationFailed, ErrUnauthorized}, {kerr.InvalidTopicException, ErrTopicRefused}} {
		t.Run(x.err.Message, func(t *testing.T) {
			ctx := testContext(t)
			c := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(2, "orders", "other"))
			fault := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: "orders", Err: x.err, Count: -1})
			h := newRecorder(t)
			s := open(t, testConfig(t, c), h)
			steady(t, s, "orders", 2, 20, nil)
			h.await(ctx, "the topic to stop", func() bool { return len(h.topics) == 1 && errors.Is(h.topics[0], x.want) })
			produce(t, s, record("other", 0, 1000)) // the others go on
			h.settledTo(ctx, 1)
			fault.Remove()
			flush(t, ctx, s)
			h.await(ctx, "the topic to heal", func() bool { return len(h.topics) == 2 && h.topics[1] == nil })
			checkLog(t, ctx, c.ListenAddrs(), "orders", 20, nil)
		})
	}
}

// TestNoLeader: while a partition has no leader its records wait, and nothing is wrong with
// the topic.
func TestNoLeader(t *testing.T) {
	ctx := testContext(t)
	c := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(2, "orders"))
	fault := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: "orders", Partitions: []int32{1}, Err: kerr.LeaderNotAvailable, Count: 5})
	h := newRecorder(t)
	s := open(t, testConfig(t, c), h)
	steady(t, s, "orders", 2, 20, nil)
	flush(t, ctx, s)
	if fault.Hits() != 5 || len(h.topics) != 0 {
		t.Errorf("%d faults hit, topic states %v", fault.Hits(), h.topics)
	}
	checkLog(t, ctx, c.ListenAddrs(), "orders", 20, nil)
}
