package lab

import (
	"context"
	"fmt"
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

// Ends are the offsets at which each partition of the topic will go on.
func (l *Lab) Ends(ctx context.Context) (map[int32]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	listed, err := kadm.NewClient(l.kafka).ListEndOffsets(ctx, l.Topic)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("list the end offsets of topic %q: %w", l.Topic, err)
	}
	ends := map[int32]int64{}
	listed.Each(func(o kadm.ListedOffset) { ends[o.Partition] = o.Offset })
	return ends, nil
}

// WaitEnds asks for the Ends until the broker answers.
func (l *Lab) WaitEnds() map[int32]int64 {
	l.t.Helper()
	var ends map[int32]int64
	var last string
	Until(l.t, "the ends of the topic's partitions", func(ctx context.Context) (bool, error) {
		var err error
		ends, err = l.Ends(ctx)
		last = fmt.Sprint(err)
		return err == nil, nil // the broker may be away for the moment
	}, &last)
	return ends
}

// Count is how many records lie before the ends.
func Count(ends map[int32]int64) int64 {
	var n int64
	for _, end := range ends {
		n += end
	}
	return n
}

// Records is how many records are in the topic now.
func (l *Lab) Records() int64 {
	l.t.Helper()
	ends, err := l.Ends(context.Background())
	if err != nil {
		l.t.Fatal(err)
	}
	return Count(ends)
}

// WaitRecords waits until the topic holds at least n records.
func (l *Lab) WaitRecords(n int64) {
	l.t.Helper()
	var last string
	Until(l.t, fmt.Sprintf("%d records in the topic", n), func(ctx context.Context) (bool, error) {
		ends, err := l.Ends(ctx)
		last = fmt.Sprint(Count(ends), " ", err)
		return err == nil && Count(ends) >= n, nil
	}, &last)
}

// await reads on from the ends until the event is there.
func (l *Lab) await(ends map[int32]int64, dedupeKey string) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	from := map[int32]kgo.Offset{}
	for partition, end := range ends {
		from[partition] = kgo.NewOffset().At(end)
	}
	c, err := kgo.NewClient(kgo.SeedBrokers(l.Brokers...), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{l.Topic: from}))
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
