package lab

import (
	"context"
	"time"

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
