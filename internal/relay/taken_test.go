package relay

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cdc-relay/cdc-relay/sink"
	"github.com/cdc-relay/cdc-relay/wal"
)

// busySink takes a record only when its session ends.
type busySink struct{ sink.Sink }

func (busySink) Produce(ctx context.Context, _ *sink.Record) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestLostOwnerIsTheReason: whatever the pump was doing when another relay took over, that is why the
// session ended, and not that its context was canceled.
func TestLostOwnerIsTheReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := rig(t, nil, &source{frames: script(begin(20), outbox, insert(1, order("1", "a")))})
		open := b.Relay.cfg.Sink
		b.Relay.cfg.Sink = func(h sink.Handler) (sink.Sink, error) {
			s, err := open(h)
			return busySink{s}, err
		}
		lost := 0
		b.Relay.cfg.Events.Reconnect = func(string) { lost++ }
		b.run(t)
		b.store.lose(true)
		time.Sleep(askEvery + time.Second)
		synctest.Wait()
		if s := b.Status(); s.Phase != PhaseStandby {
			t.Errorf("status %+v, want standby", s)
		}
		if lost != 0 {
			t.Errorf("%d connections count as lost, and another relay took over", lost)
		}
		if err := b.end(); err != nil {
			t.Errorf("stop of a standby: %v", err)
		}
	})
}

// slowStore needs a while for its answers.
type slowStore struct{ *store }

func (s slowStore) CheckOwner(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Second):
		return s.store.CheckOwner(ctx)
	}
}

// TestStandbyIsSaidWhenItIsKnown: whoever waits for a standby, to stop it, finds one that knows whose
// the events are that it had in flight. A stop meanwhile waits for that too.
func TestStandbyIsSaidWhenItIsKnown(t *testing.T) {
	for _, c := range []struct {
		name string
		look func(*bench) bool // when to stop it
	}{
		{"stopped as a standby", func(b *bench) bool { return b.Status().Phase == PhaseStandby }},
		{"stopped while it asks", func(b *bench) bool { return b.origins.opened() > 1 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lost := &source{frames: script(begin(20), outbox, insert(1, order("1", "a")), commit(20, 28)), fail: errors.New("EOF"), pace: time.Millisecond}
				busy := &source{refuse: &wal.SlotActiveError{PID: 7, Err: errors.New("slot is active")}}
				b := rig(t, nil, lost, busy)
				b.Relay.cfg.Store = slowStore{b.store}
				b.store.failWith(errors.New("connection reset")) // the event's ack can't be stored
				b.run(t)
				b.store.failWith(nil)
				b.store.lose(true)
				for !c.look(b) {
					time.Sleep(10 * time.Millisecond)
					synctest.Wait()
				}
				if err := b.end(); err != nil {
					t.Errorf("stop: %v", err)
				}
			})
		})
	}
}

// TestStreamSaysWhyItEnded: the stream closes its channel before it returns, and what it returns then may
// have to end the relay.
func TestStreamSaysWhyItEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := fmt.Errorf("stream: %w", wal.ErrPublicationMissing)
		b := rig(t, nil, &source{frames: one(20), fail: gone, late: time.Second})
		b.run(t)
		time.Sleep(time.Minute)
		synctest.Wait()
		select {
		case err := <-b.done:
			if !errors.Is(err, wal.ErrPublicationMissing) {
				t.Errorf("ended with %v, want what the stream returned", err)
			}
		default:
			t.Errorf("goes on, in phase %s, after %d sessions", b.Status().Phase, b.origins.opened())
			if err := b.end(); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestStandbyStaysOne: a standby tries the slot again and again, and is ready all the while.
func TestStandbyStaysOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := rig(t, nil, &source{refuse: &wal.SlotActiveError{PID: 7, Err: errors.New("slot is active")}})
		b.Relay.cfg.Store = slowStore{b.store}
		b.run(t)
		time.Sleep(2 * time.Second)
		for range 100 {
			if s := b.Status(); s.Phase != PhaseStandby || !s.Ready {
				t.Fatalf("status %+v, want a ready standby", s)
			}
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
		}
		if err := b.end(); err != nil {
			t.Error(err)
		}
	})
}

// TestPace: relays of several slots don't come back in step.
func TestPace(t *testing.T) {
	seen := map[time.Duration]bool{}
	for i := range 50 {
		wait := pace(fmt.Sprintf("slot_%d", i))
		first := wait.NextBackOff()
		if first < 80*time.Millisecond || first > 120*time.Millisecond {
			t.Errorf("the first pause is %s, want 100 ms or a fifth less or more", first)
		}
		seen[first.Round(time.Millisecond)] = true
		var longest time.Duration
		for range 20 {
			longest = max(longest, wait.NextBackOff())
		}
		if longest < 4*time.Second || longest > 6*time.Second {
			t.Errorf("the longest pause is %s, want 5 s or a fifth less or more", longest)
		}
	}
	if len(seen) < 20 {
		t.Errorf("50 slots have %d rhythms", len(seen))
	}
}
