package lab

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Seen is a record as a consumer sees it.
type Seen struct {
	Partition int32
	Offset    int64
	Key       string
	Value     string
	Headers   map[string]string
}

// ends are the offsets at which each partition will go on.
func (l *Lab) ends() map[int32]kgo.Offset {
	l.t.Helper()
	ends := map[int32]kgo.Offset{}
	Until(l.t, "the ends of the topic's partitions", func(ctx context.Context) (bool, error) {
		c, err := kgo.NewClient(kgo.SeedBrokers(l.Brokers...))
		if err != nil {
			return false, err
		}
		defer c.Close()
		listed, err := kadm.NewClient(c).ListEndOffsets(ctx, l.Topic)
		if err != nil || listed.Error() != nil {
			return false, nil // the broker may be away for the moment
		}
		listed.Each(func(o kadm.ListedOffset) { ends[o.Partition] = kgo.NewOffset().At(o.Offset) })
		return true, nil
	}, nil)
	return ends
}

// await reads on from the ends until the event is there.
func (l *Lab) await(ends map[int32]kgo.Offset, dedupeKey string) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := kgo.NewClient(kgo.SeedBrokers(l.Brokers...), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{l.Topic: ends}))
	if err != nil {
		l.t.Fatal(err)
	}
	defer c.Close()
	for found := false; !found; {
		fetches := c.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			l.t.Fatalf("waited a minute for the event %s in %s: %v", dedupeKey, l.Topic, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			for _, h := range r.Headers {
				found = found || h.Key == "dedupe_key" && string(h.Value) == dedupeKey
			}
		})
	}
}

// Read returns the first n records of the topic, by partition and offset.
func (l *Lab) Read(n int) []Seen {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := kgo.NewClient(kgo.SeedBrokers(l.Brokers...), kgo.ConsumeTopics(l.Topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		l.t.Fatal(err)
	}
	defer c.Close()
	var seen []Seen
	for len(seen) < n {
		fetches := c.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			l.t.Fatalf("read %d records of %s, got %d: %v", n, l.Topic, len(seen), err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			s := Seen{Partition: r.Partition, Offset: r.Offset, Key: string(r.Key), Value: string(r.Value), Headers: map[string]string{}}
			for _, h := range r.Headers {
				s.Headers[h.Key] = string(h.Value)
			}
			seen = append(seen, s)
		})
	}
	return seen
}
