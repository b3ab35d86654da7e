package sinktest

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/cdc-relay/cdc-relay/sink"
)

// spoiled produces n records per partition, of which those of partition 0 at the given places
// are refused, and returns all of them.
func (r *rig) spoiled(topic string, partitions, n int, p Poison, places ...int) [][]*sink.Record {
	r.Helper()
	by := make([][]*sink.Record, partitions)
	for i := range n {
		for part := range by {
			rec := r.event(topic, int32(part))
			if part == 0 && slices.Contains(places, i) {
				p.Spoil(rec)
			}
			by[part] = append(by[part], rec)
			r.produce(rec)
		}
	}
	return by
}

func without(rs []*sink.Record, places ...int) []*sink.Record {
	var out []*sink.Record
	for i, rec := range rs {
		if !slices.Contains(places, i) {
			out = append(out, rec)
		}
	}
	return out
}

// rejectSettled: each refused record is asked about until its verdict is Settled; the others
// are published in order without it.
func rejectSettled(r *rig) {
	topic := r.sub.Topic(r.T, 3)
	p := r.sub.Poison(r.T, topic)
	var mu sync.Mutex
	asked := make(map[*sink.Record]int)
	r.ledger.Verdict = func(_ context.Context, rec *sink.Record, _ error) (sink.Verdict, error) {
		mu.Lock()
		defer mu.Unlock()
		asked[rec]++
		switch asked[rec] {
		case 1:
			return sink.Retry, nil
		case 2:
			return sink.Settled, errors.New("not durable after all")
		default:
			return sink.Settled, nil
		}
	}
	places := []int{0, 30, 31, 70, 99}
	by := r.spoiled(topic, 3, 100, p, places...)
	r.flush()
	for i, rec := range by[0] {
		want := 0
		if slices.Contains(places, i) {
			want = 3
		}
		if asked[rec] != want {
			r.Errorf("record %d was rejected %d times, want %d", i, asked[rec], want)
		}
	}
	by[0] = without(by[0], places...)
	if got := r.ledger.Acks(topic, 0); !slices.Equal(got, by[0]) {
		r.Errorf("%d records were acked, want %d and none that was settled elsewhere", len(got), len(by[0]))
	}
	r.holds(topic, by)
}

// rejectHolds: while a verdict is open, all before it is published, nothing after it is, and
// other partitions go on.
func rejectHolds(r *rig) {
	topic := r.sub.Topic(r.T, 2)
	p := r.sub.Poison(r.T, topic)
	verdict := make(chan struct{})
	r.ledger.Verdict = func(ctx context.Context, _ *sink.Record, _ error) (sink.Verdict, error) {
		select {
		case <-verdict:
			return sink.Settled, nil
		case <-ctx.Done():
			return sink.Retry, ctx.Err()
		}
	}
	by := r.spoiled(topic, 2, 40, p, 17)
	r.wait("the question", func() bool { return r.ledger.Rejects() == 1 })
	r.wait("the other partition", func() bool { return len(r.ledger.Acks(topic, 1)) == 40 })
	if n := len(r.ledger.Acks(topic, 0)); n != 17 {
		r.Errorf("%d records before the refused one were acked, want 17", n)
	}
	r.holds(topic, [][]*sink.Record{by[0][:17], by[1]})
	close(verdict)
	r.flush()
	r.holds(topic, [][]*sink.Record{without(by[0], 17), by[1]})
}

// rejectHeals: Retry keeps the record in its place.
func rejectHeals(r *rig) {
	topic := r.sub.Topic(r.T, 2)
	p := r.sub.Poison(r.T, topic)
	var once sync.Once
	produced := make(chan struct{})
	r.ledger.Verdict = func(context.Context, *sink.Record, error) (sink.Verdict, error) {
		<-produced // what is spoiled later would not be healed
		once.Do(p.Heal)
		return sink.Retry, nil
	}
	by := r.spoiled(topic, 2, 40, p, 5, 20)
	close(produced)
	r.flush()
	if r.ledger.Rejects() == 0 {
		r.Error("nothing was rejected: the case proves nothing")
	}
	r.holds(topic, by)
}

// rejectLast: a slow report of what was acked holds the question about the next record back.
// The ledger sees it when not.
func rejectLast(r *rig) {
	topic := r.sub.Topic(r.T, 1)
	p := r.sub.Poison(r.T, topic)
	asked := make(chan struct{})
	var once, first sync.Once
	r.ledger.Reporting = func() {
		first.Do(func() { r.grace(asked) })
	}
	r.ledger.Verdict = func(context.Context, *sink.Record, error) (sink.Verdict, error) {
		once.Do(func() { close(asked) })
		return sink.Settled, nil
	}
	by := r.spoiled(topic, 1, 10, p, 4)
	r.flush()
	r.holds(topic, [][]*sink.Record{without(by[0], 4)})
}

// rejectClose: Close ends a verdict's context and counts its record as unsettled.
func rejectClose(r *rig) {
	topic := r.sub.Topic(r.T, 1)
	p := r.sub.Poison(r.T, topic)
	r.ledger.Verdict = func(ctx context.Context, _ *sink.Record, _ error) (sink.Verdict, error) {
		<-ctx.Done()
		return sink.Retry, ctx.Err()
	}
	r.spoiled(topic, 1, 10, p, 4)
	r.wait("the question", func() bool { return r.ledger.Rejects() == 1 })
	if left, _ := r.close(r.ctx); left != 6 { // an error may say what was given up
		r.Errorf("close counted %d unsettled records, want 6", left)
	}
}
