package sinktest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/sink"
)

func flush(r *rig) {
	topic := r.sub.Topic(r.T, 3)
	r.flush() // nothing was taken yet
	by := make([][]*sink.Record, 3)
	for n := range 50 {
		for i := range n {
			rec := r.event(topic, int32(i%3))
			by[i%3] = append(by[i%3], rec)
			r.produce(rec)
		}
		r.flush()
	}
	r.flush() // nothing is left
	r.holds(topic, by)
}

// flushReports: a record is settled once its report is over, so Flush waits for a slow one.
func flushReports(r *rig) {
	topic := r.sub.Topic(r.T, 1)
	returned := make(chan struct{})
	var first sync.Once
	r.ledger.Reporting = func() {
		first.Do(func() { r.grace(returned) })
	}
	r.produce(r.event(topic, 0))
	r.flush() // looks whether all is reported
	close(returned)
}

// grace waits for what must not happen, long enough for a sink that does it at once.
func (r *rig) grace(happened <-chan struct{}) {
	t := time.NewTimer(200 * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
	case <-happened:
	}
}

// flushEnds: a Flush whose context ends gives nothing up, and a later one is fulfilled.
func flushEnds(r *rig) {
	topic := r.sub.Topic(r.T, 3)
	resume := r.sub.Stall(r.T)
	by := r.scatter(topic, 3, 100)
	ctx, cancel := context.WithCancel(r.ctx)
	result := make(chan error, 1)
	go func() { result <- r.sink.Flush(ctx) }()
	select {
	case err := <-result:
		r.Fatalf("flush returned %v with everything stalled", err)
	default:
	}
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		r.Errorf("flush returned %v, want the context's error", err)
	}
	if r.ledger.Open() == 0 {
		r.Error("nothing was left to flush: the case proves nothing")
	}
	resume()
	r.flush()
	r.holds(topic, by)
}

func closeIdle(r *rig) {
	topic := r.sub.Topic(r.T, 1)
	r.produce(r.event(topic, 0))
	r.flush()
	for range 2 {
		if left, err := r.sink.Close(r.ctx); left != 0 || err != nil {
			r.Errorf("close returned %d and %v, want 0 and nil", left, err)
		}
	}
}

func closeCounts(r *rig) {
	topic := r.sub.Topic(r.T, 3)
	r.scatter(topic, 3, 50)
	r.flush()
	resume := r.sub.Stall(r.T)
	r.scatter(topic, 3, 100)
	// The subject can't answer, so Close must not wait for it longer than it is allowed to.
	ctx, cancel := context.WithCancel(r.ctx)
	cancel()
	left, _ := r.close(ctx) // an error may say what was given up
	if left == 0 {
		r.Error("close counted nothing with everything stalled")
	}
	again, _ := r.sink.Close(ctx)
	if again != left {
		r.Errorf("the second close counted %d, the first %d", again, left)
	}
	if err := r.sink.Flush(r.ctx); !errors.Is(err, sink.ErrClosed) {
		r.Errorf("flush with records given up returned %v, want ErrClosed", err)
	}
	resume()
}

// closeStops: what is not under way when Close comes is never sent, also when the subject
// answers again.
func closeStops(r *rig) {
	topic := r.sub.Topic(r.T, 1)
	resume := r.sub.Stall(r.T)
	const n = 20_000
	for range n { // more than any sink has under way
		rec := r.event(topic, 0)
		rec.Value = make([]byte, 1_000)
		r.produce(rec)
	}
	result := make(chan int, 1)
	go func() {
		left, _ := r.close(r.ctx) // an error may say what was given up
		result <- left
	}()
	for {
		if err := r.ledger.Produce(r.ctx, r.sink, r.event(topic, 0)); err != nil {
			break // Close has begun
		}
	}
	resume()
	left := <-result
	if left < n/2 {
		r.Errorf("close counted %d unsettled records of %d that were held up: it went on sending", left, n)
	}
	if got := len(r.sub.Read(r.T, topic)[0]); got > r.made-left+n/2 {
		r.Errorf("%d records were sent, though %d are unsettled", got, left)
	}
}

// closeInTraffic: whatever was published when Close came is the beginning of each partition,
// with nothing left out, and holds all that was acked.
func closeInTraffic(r *rig) {
	n := 10_000
	if testing.Short() {
		n = 2_000
	}
	topic := r.sub.Topic(r.T, 6)
	by := r.scatter(topic, 6, n)
	r.close(r.ctx)
	got := r.sub.Read(r.T, topic)
	for p := range by {
		var in []Stored
		if p < len(got) {
			in = got[p]
		}
		if acked := len(r.ledger.Acks(topic, int32(p))); len(in) < acked || len(in) > len(by[p]) {
			r.Fatalf("partition %d holds %d records, %d were acked and %d produced", p, len(in), acked, len(by[p]))
		}
		for i := range in {
			if d := differ(by[p][i], in[i]); d != "" {
				r.Fatalf("partition %d, record %d: %s", p, i, d)
			}
		}
	}
}

func produceRefuses(r *rig) {
	topic := r.sub.Topic(r.T, 1)
	if err := r.ledger.Produce(r.ctx, r.sink, r.event(topic, -1)); err == nil {
		r.Error("a record of partition -1 was taken")
	}
	ended, cancel := context.WithCancel(r.ctx)
	cancel()
	// A sink that has room may take it all the same; the ledger sees whether it means it.
	if err := r.ledger.Produce(ended, r.sink, r.event(topic, 0)); err != nil && !errors.Is(err, context.Canceled) {
		r.Errorf("produce with a context that has ended: %v, want its error", err)
	}
	r.produce(r.event(topic, 0))
	r.flush()
	r.close(r.ctx)
	if err := r.ledger.Produce(r.ctx, r.sink, r.event(topic, 0)); !errors.Is(err, sink.ErrClosed) {
		r.Errorf("produce after close: %v, want ErrClosed", err)
	}
}

// topicFails: the topic is reported once and waits, others go on, and nothing of it is lost or
// reordered when it is well again.
func topicFails(r *rig) {
	bad, good := r.sub.Topic(r.T, 2), r.sub.Topic(r.T, 2)
	before := r.scatter(bad, 2, 20)
	r.flush()
	mend := r.sub.Outage(r.T, bad)
	after := r.scatter(bad, 2, 50)
	other := r.scatter(good, 2, 50)
	r.wait("the report of the failed topic", func() bool {
		ts := r.ledger.Topics()
		return len(ts) > 0 && ts[0].Topic == bad && ts[0].Err != nil
	})
	r.wait("the other topic", func() bool {
		return len(r.ledger.Acks(good, 0)) == len(other[0]) && len(r.ledger.Acks(good, 1)) == len(other[1])
	})
	if n := r.ledger.Open(); n != 50 {
		r.Errorf("%d records of the failed topic wait, want 50", n)
	}
	mend()
	r.flush()
	r.wait("the report of the healed topic", func() bool {
		ts := r.ledger.Topics()
		return ts[len(ts)-1] == TopicReport{bad, nil}
	})
	if ts := r.ledger.Topics(); len(ts) != 2 {
		r.Errorf("topics were reported as %v, want one failure and its end", ts)
	}
	r.holds(bad, [][]*sink.Record{append(before[0], after[0]...), append(before[1], after[1]...)})
	r.holds(good, other)
}
