package relay

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cdc-relay/cdc-relay/checkpoint"
	"github.com/cdc-relay/cdc-relay/sink"
)

// handler is what the sink reports to. It outlives sessions, as the sink does; acks go to the
// tracker of the session that produced them, since the next one begins to publish only when
// nothing of it is in flight.
type handler struct {
	gate *gate
	ev   *Events
	now  func() time.Time

	tracker   atomic.Pointer[checkpoint.Tracker]
	published atomic.Uint64

	mu     sync.Mutex
	topics map[string]error // the topics that can't be published to for now
}

func newHandler(g *gate, ev *Events, now func() time.Time) *handler {
	return &handler{gate: g, ev: ev, now: now, topics: map[string]error{}}
}

// Acked counts records as published. Runs of records with one ticket are counted together, so
// that a batch takes the tracker's lock once per transaction.
func (h *handler) Acked(rs []*sink.Record) {
	if len(rs) == 0 {
		return
	}
	t := h.tracker.Load() // nil after the slot was lost to another relay, whose matter the acks are
	halted := h.gate.isShut.Load()
	oldest := rs[0].CommitTime
	for i := 0; i < len(rs); {
		n, bytes := 0, int64(0)
		ticket := rs[i].Ticket
		for ; i < len(rs) && rs[i].Ticket == ticket; i++ {
			n++
			bytes += int64(weight(rs[i]))
			if rs[i].CommitTime.Before(oldest) {
				oldest = rs[i].CommitTime
			}
			if halted {
				h.gate.open(rs[i].Position)
			}
		}
		if t != nil {
			t.Ack(ticket, n, bytes)
		}
	}
	h.published.Add(uint64(len(rs)))
	if h.ev.Published != nil {
		h.ev.Published(rs[0].Topic, len(rs), h.now().Sub(oldest))
	}
}

// weight is what a record counts against Limits.Bytes, the same at Add and at Ack.
func weight(r *sink.Record) int { return r.Bytes() + recordOverhead }

// Reject holds the record, and with it everything, until the next try.
func (h *handler) Reject(ctx context.Context, r *sink.Record, cause error) (sink.Verdict, error) {
	if h.ev.Rejected != nil {
		h.ev.Rejected("halt")
	}
	h.gate.shut(r.Position, cause)
	t := time.NewTimer(haltRetry)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
	return sink.Retry, nil
}

// Topic keeps which topics are stopped, for the status.
func (h *handler) Topic(topic string, err error) {
	h.mu.Lock()
	if err == nil {
		delete(h.topics, topic)
	} else {
		h.topics[topic] = err
	}
	h.mu.Unlock()
	if err != nil && h.ev.PublishError != nil {
		h.ev.PublishError(topic, "topic")
	}
}

// stopped returns one topic that can't be published to, and why.
func (h *handler) stopped() (topic string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for t, e := range h.topics {
		if topic == "" || t < topic {
			topic, err = t, e
		}
	}
	return topic, err
}
