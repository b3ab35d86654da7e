package relay

import (
	"fmt"
	"time"
)

// stalled is how long events may be in flight without any progress before the relay says that it
// isn't ready.
const stalled = 30 * time.Second

// Status says how the relay is. Any goroutine may ask at any time.
func (r *Relay) Status() Status {
	r.mu.Lock()
	s := Status{Phase: r.phase, Reason: r.reason, Slot: r.cfg.Slot, Publication: r.cfg.Publication}
	r.mu.Unlock()
	s.Stored = r.stored.Stored()
	if src := r.source.Load(); src != nil {
		s.Received = src.Received()
	}
	h := r.handler
	s.Published = h.published.Load()
	if t := h.tracker.Load(); t != nil {
		s.Confirmed = t.Confirmed()
		s.InflightEvents, s.InflightBytes = t.InFlight()
		s.OldestUnconfirmed, _ = t.Oldest()
	}
	r.judge(&s, h)
	return s
}

// judge says whether the relay is ready, and the first reason why not.
func (r *Relay) judge(s *Status, h *handler) {
	r.saves.mu.Lock()
	failing, failure, moved := r.saves.failing, r.saves.failure, r.saves.moved
	r.saves.mu.Unlock()
	s.LastProgress = moved
	now := r.cfg.Now()
	halt := r.gate.cause()
	topic, stopped := h.stopped()
	unchecked := r.unchecked.Load()
	switch {
	case s.Phase == PhaseStandby:
		s.Ready = true // able to take over, which is all that a standby promises
	case s.Phase != PhaseStopping && halt != nil:
		s.Phase, s.Reason = PhaseHalted, halt.Error()
	case s.Phase != PhaseStreaming:
	case unchecked != nil:
		s.Reason = "not ready to publish: " + (*unchecked).Error()
	case stopped != nil:
		s.Reason = fmt.Sprintf("topic %q can't be published to: %v", topic, stopped)
	case !failing.IsZero() && now.Sub(failing) > storeRed:
		s.Reason = fmt.Sprintf("the stored position can't be written since %s: %v", failing.UTC().Format(time.RFC3339), failure)
	case s.InflightEvents > 0 && !moved.IsZero() && now.Sub(moved) > stalled:
		s.Reason = fmt.Sprintf("%d events wait for Kafka's acknowledgement, without progress since %s", s.InflightEvents, moved.UTC().Format(time.RFC3339))
	default:
		s.Ready = true
	}
}
