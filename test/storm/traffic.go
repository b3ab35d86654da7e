package storm

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cdc-relay/cdc-relay/decode/shape"
	"github.com/cdc-relay/cdc-relay/sink"
	"github.com/cdc-relay/cdc-relay/test/oracle"
	"github.com/cdc-relay/cdc-relay/wal"
)

// entities is how many keys the events have: some hundred per partition, so that order within
// a key is more than order within a partition now and then.
const entities = 5_000

// traffic makes the events of a storm and takes the sink's reports about them.
type traffic struct {
	topic      string
	partitions int32
	spoil      int // every so many events one is too large for the broker; 0: none
	expected   []oracle.Expected

	mu      sync.Mutex
	room    *sync.Cond
	open    int
	settled []bool           // by event
	last    map[int32]uint64 // ticket of the last settled event, by partition
	refused map[uint64]error // tickets settled by a verdict
	asked   int
	total   int         // settled events
	halt    func(error) // called when a topic is reported
	faults  []string
}

var _ sink.Handler = (*traffic)(nil)

func newTraffic(topic string, partitions int32, events int) *traffic {
	t := &traffic{topic: topic, partitions: partitions, settled: make([]bool, events), last: make(map[int32]uint64), refused: make(map[uint64]error)}
	t.room = sync.NewCond(&t.mu)
	return t
}

// event makes event n, the same one each time. Entity and partition belong together; the
// storm tests the sink, not the partition function.
func (t *traffic) event(n int) *sink.Record {
	entity := (n * 7919) % entities
	partition := int32(entity) % t.partitions
	key := fmt.Appendf(nil, "order-%d", entity)
	id := fmt.Sprintf("order.changed:order-%d:%d", entity, n)
	at := wal.Position{Lineage: 1, Commit: wal.LSN(0x1000000 + n*64)}
	r := &sink.Record{
		Event: shape.Event{
			Position: at, Topic: t.topic, ShardKey: key, Key: key,
			Value: fmt.Appendf(nil, `{"order": "order-%d", "version": %d, "total": %d.%02d, "note": "%x"}`, entity, n, n%977, n%100, n*2654435761),
			Headers: []shape.Header{
				{Key: "dedupe_key", Value: []byte(id)},
				{Key: "position", Value: []byte(at.String())},
			},
			TimestampMs: 1_700_000_000_000 + int64(n),
			DedupeKey:   id,
		},
		Partition: partition,
		Ticket:    uint64(n) + 1,
	}
	if t.spoiled(n) {
		r.Value = noise(n, 40_000)
	}
	return r
}

// spoiled says whether event n is one that the broker refuses.
func (t *traffic) spoiled(n int) bool { return t.spoil > 0 && n%t.spoil == t.spoil/2 }

// expect expects event n, which r is, in the topic.
func (t *traffic) expect(n int, r *sink.Record) {
	if t.spoiled(n) {
		return
	}
	t.expected = append(t.expected, oracle.Expected{
		ID: r.DedupeKey, Key: string(r.Key), Partition: r.Partition, Order: int64(n),
		RecordKey: oracle.Sum(r.Key), Value: oracle.Sum(r.Value),
	})
}

// noise is n bytes that can't be compressed.
func noise(seed, n int) []byte {
	b := make([]byte, n)
	x := uint32(seed)*2654435761 + 1
	for i := range b {
		x = x*1664525 + 1013904223 // the constants of Numerical Recipes
		b[i] = byte(x >> 24)
	}
	return b
}

// take waits until fewer than limit events are open, and counts one more.
func (t *traffic) take(ctx context.Context, limit int) error {
	defer context.AfterFunc(ctx, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.room.Broadcast()
	})()
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.open >= limit && ctx.Err() == nil {
		t.room.Wait()
	}
	t.open++
	return context.Cause(ctx)
}

// watch calls halt when nothing is settled for so long, until ctx ends.
func (t *traffic) watch(ctx context.Context, long time.Duration) {
	tick := time.NewTicker(long)
	defer tick.Stop()
	last := -1
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		t.mu.Lock()
		total, open := t.total, t.open
		t.mu.Unlock()
		if total == last && open > 0 {
			t.halt(fmt.Errorf("none of %d open events was settled for %s", open, long))
		}
		last = total
	}
}

// restart forgets what a closed sink reported about events that it will be given again, and
// returns the first event that was not settled: as in the relay, all from there on come again.
func (t *traffic) restart() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open = 0
	clear(t.last)
	n := slices.Index(t.settled, false)
	if n < 0 {
		n = len(t.settled)
	}
	clear(t.settled[n:])
	return n
}

// Acked implements sink.Handler.
func (t *traffic) Acked(rs []*sink.Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range rs {
		t.settle(r)
	}
}

// Reject implements sink.Handler. Every refused event is put away.
func (t *traffic) Reject(_ context.Context, r *sink.Record, cause error) (sink.Verdict, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked++
	if t.asked%3 == 0 { // now and then it is tried again first
		return sink.Retry, nil
	}
	t.refused[r.Ticket] = cause
	t.settle(r)
	return sink.Settled, nil
}

// Topic implements sink.Handler.
func (t *traffic) Topic(topic string, err error) {
	t.halt(fmt.Errorf("topic %q was reported: %w", topic, err))
}

// settle books one event. The caller holds mu.
func (t *traffic) settle(r *sink.Record) {
	if last := t.last[r.Partition]; r.Ticket <= last && len(t.faults) < 20 {
		t.faults = append(t.faults, fmt.Sprintf("partition %d: event %d was settled after event %d", r.Partition, r.Ticket-1, last-1))
	}
	t.last[r.Partition] = r.Ticket
	t.settled[r.Ticket-1] = true
	t.open--
	t.total++
	t.room.Signal()
}
