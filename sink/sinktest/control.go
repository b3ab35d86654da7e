package sinktest

import (
	"context"
	"slices"

	"github.com/cdc-relay/cdc-relay/sink"
	"github.com/cdc-relay/cdc-relay/wal"
)

// Hold stops the publishing: records are taken and wait, until Release.
func (r *Recorder) Hold() { r.set(func() { r.hold = true }) }

// HoldAcks stops the reporting: records are published, and nobody is told, until Release. A
// crash in that state is what makes repeats.
func (r *Recorder) HoldAcks() { r.set(func() { r.acks = true }) }

// Stall makes Produce block until Release or the end of its context.
func (r *Recorder) Stall() { r.set(func() { r.stalled = true }) }

// Release ends Hold, HoldAcks and Stall.
func (r *Recorder) Release() {
	r.set(func() {
		r.hold, r.acks, r.stalled = false, false, false
		for _, l := range r.lanes {
			l.allow = 0
		}
	})
}

// Pass lets the next n records of one partition through although the recorder is on hold.
func (r *Recorder) Pass(topic string, partition int32, n int) {
	r.set(func() { r.lane(laneID{topic, partition}).allow += n })
}

// Refuse makes the record at a position one that is refused for cause; nil accepts it again.
func (r *Recorder) Refuse(at wal.Position, cause error) {
	r.set(func() {
		if cause == nil {
			delete(r.refused, at)
		} else {
			r.refused[at] = cause
		}
	})
}

// FailTopic makes a topic unpublishable and reports it; nil makes it well again and reports
// that. The handler is called before FailTopic returns.
func (r *Recorder) FailTopic(topic string, err error) {
	r.set(func() {
		if err == nil {
			delete(r.failed, topic)
		} else {
			r.failed[topic] = err
		}
	})
	r.h.Topic(topic, err)
}

func (r *Recorder) set(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
	r.cond.Broadcast()
}

// Published returns the records of one partition in the order in which they were published.
func (r *Recorder) Published(topic string, partition int32) []*sink.Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.lanes[laneID{topic, partition}]; l != nil {
		return slices.Clone(l.log)
	}
	return nil
}

// Counts returns the totals so far.
func (r *Recorder) Counts() Counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts
}

// Wait returns nil when the totals satisfy ok, and ctx's error when ctx ends first.
func (r *Recorder) Wait(ctx context.Context, ok func(Counts) bool) error {
	defer r.wakeWith(ctx)()
	r.mu.Lock()
	defer r.mu.Unlock()
	for !ok(r.counts) {
		if err := ctx.Err(); err != nil {
			return err
		}
		r.cond.Wait()
	}
	return nil
}
