package sinktest_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-relay/cdc-relay/decode/shape"
	"github.com/cdc-relay/cdc-relay/internal/devenv"
	"github.com/cdc-relay/cdc-relay/internal/devenv/envtest"
	"github.com/cdc-relay/cdc-relay/sink"
	"github.com/cdc-relay/cdc-relay/sink/kafka"
	"github.com/cdc-relay/cdc-relay/sink/sinktest"
)

func TestMain(m *testing.M) { envtest.Main(m) }

// limit is a test's patience with the broker.
const limit = time.Minute

func TestKafkaConformsOnKfake(t *testing.T) {
	sinktest.Run(t, func(t *testing.T) sinktest.Subject {
		c := envtest.Embedded(t, kfake.NumBrokers(3)).Cluster()
		s := kafkaSubject(c.ListenAddrs())
		s.Stall = func(*testing.T) func() {
			resume := make(chan struct{})
			c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
				c.KeepControl()
				c.SleepControl(func() { <-resume })
				return nil, nil, false
			})
			return func() { close(resume) }
		}
		s.Outage = func(_ *testing.T, topic string) func() {
			return c.Fault(kfake.Fault{
				Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Err: kerr.TopicAuthorizationFailed, Count: -1,
			}).Remove
		}
		return s
	})
}

// A broker of its own, since it is frozen in between.
func TestKafkaConformsOnKafka(t *testing.T) {
	k := envtest.OwnKafka(t, devenv.KafkaOptions{})
	t.Logf("Kafka %s", k.Version())
	sinktest.Run(t, func(*testing.T) sinktest.Subject {
		s := kafkaSubject(k.Brokers())
		s.Stall = func(t *testing.T) func() {
			if err := k.Freeze(); err != nil {
				t.Fatal(err)
			}
			return func() {
				if err := k.Thaw(); err != nil {
					t.Error(err)
				}
			}
		}
		return s
	})
}

// kafkaSubject is what is the same on every kind of broker.
func kafkaSubject(brokers []string) sinktest.Subject {
	made := 0
	return sinktest.Subject{
		Open: func(t *testing.T, h sink.Handler) sink.Sink {
			s, err := kafka.Open(context.Background(), kafka.Config{
				Brokers:        brokers,
				ReadTimeout:    2 * time.Second,
				ProduceTimeout: time.Second,
				MinBackoff:     5 * time.Millisecond,
				MaxBackoff:     100 * time.Millisecond,
				SlowBackoff:    100 * time.Millisecond,
				Log:            zerolog.New(t.Output()).Level(zerolog.WarnLevel),
			}, h)
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
		Topic: func(t *testing.T, n int32) string {
			made++
			topic := fmt.Sprintf("conformance-%d-%d", made, time.Now().UnixNano())
			ctx, cancel := context.WithTimeout(context.Background(), limit)
			defer cancel()
			// Old timestamps must not make the broker delete what was just written.
			if err := devenv.CreateTopic(ctx, brokers, topic, n, map[string]string{"retention.ms": "-1"}); err != nil {
				t.Fatal(err)
			}
			return topic
		},
		Read: func(t *testing.T, topic string) [][]sinktest.Stored { return readAll(t, brokers, topic) },
		Poison: func(t *testing.T, topic string) sinktest.Poison {
			maxBytes(t, brokers, topic, 20_000)
			return sinktest.Poison{
				Spoil: func(r *sink.Record) {
					r.Value = make([]byte, 30_000)
					for i, x := 0, uint32(1); i < len(r.Value); i++ { // what can't be compressed
						x = x*1664525 + 1013904223
						r.Value[i] = byte(x >> 24)
					}
				},
				Heal: func() { maxBytes(t, brokers, topic, 1_000_000) },
			}
		},
	}
}

func maxBytes(t *testing.T, brokers []string, topic string, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	value := strconv.Itoa(n)
	rs, err := kadm.NewClient(cl).AlterTopicConfigs(ctx, []kadm.AlterConfig{{Name: "max.message.bytes", Value: &value}}, topic)
	if err == nil {
		err = rs[0].Err
	}
	if err != nil {
		t.Fatal(err)
	}
}

// readAll reads a topic as it is, uncommitted records included.
func readAll(t *testing.T, brokers []string, topic string) [][]sinktest.Stored {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	out := make([][]sinktest.Stored, len(ends[topic]))
	from := make(map[int32]kgo.Offset)
	left := 0
	for p, end := range ends[topic] {
		if end.Offset > 0 {
			from[p] = kgo.NewOffset().At(0)
			left += int(end.Offset)
		}
	}
	cl.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: from})
	for left > 0 {
		fs := cl.PollFetches(ctx)
		if errs := fs.Errors(); len(errs) > 0 {
			t.Fatalf("read topic %s: %v", topic, errs[0].Err)
		}
		fs.EachRecord(func(r *kgo.Record) {
			left--
			s := sinktest.Stored{Key: r.Key, Value: r.Value, TimestampMs: r.Timestamp.UnixMilli()}
			for _, h := range r.Headers {
				s.Headers = append(s.Headers, shape.Header{Key: h.Key, Value: h.Value})
			}
			out[r.Partition] = append(out[r.Partition], s)
		})
	}
	return out
}
