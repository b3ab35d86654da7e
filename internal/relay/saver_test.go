package relay

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/cdc-relay/cdc-relay/checkpoint"
	"github.com/cdc-relay/cdc-relay/wal"
)

// hangingStore hangs in its first write, until its context ends.
type hangingStore struct {
	*store
	hung atomic.Bool
}

func (s *hangingStore) Save(ctx context.Context, l wal.LSN) error {
	if s.hung.CompareAndSwap(false, true) {
		<-ctx.Done()
		return ctx.Err()
	}
	return s.store.Save(ctx, l)
}

// TestWriteThatWeEndIsNoFault: a stop, or another relay that took over, ends a write under way. That is no
// trouble of the row's connection, and the log must not call it one.
func TestWriteThatWeEndIsNoFault(t *testing.T) {
	for name, taken := range map[string]bool{"a stop": false, "another relay": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log journal
				b := rig(t, func(c *Config) { c.Log = zerolog.New(&log) }, &source{frames: one(20)})
				if !taken {
					b.Relay.cfg.Store = &hangingStore{store: b.store}
				}
				lost := 0
				b.Relay.cfg.Events.Reconnect = func(string) { lost++ }
				b.run(t)
				if taken {
					b.store.lose(true)
				}
				time.Sleep(saveLook + saveLook/2) // the write has begun
				synctest.Wait()
				if err := b.end(); err != nil {
					t.Error(err)
				}
				if lost != 0 || strings.Contains(log.take(), "can't be written") {
					t.Errorf("counts %d lost connections, or complains of the row", lost)
				}
			})
		})
	}
}

// A write that takes too long is a fault.
func TestWriteThatHangsIsAFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log journal
		b := rig(t, func(c *Config) { c.Log = zerolog.New(&log) }, &source{frames: one(20)})
		b.Relay.cfg.Store = &hangingStore{store: b.store}
		b.run(t)
		time.Sleep(saveTimeout + saveEvery)
		synctest.Wait()
		if !strings.Contains(log.take(), "can't be written") {
			t.Error("a write that hung for 5 s is not said")
		}
		if got := b.store.at(); got != 28 {
			t.Errorf("stored %s after the next write, want 0/1C", got)
		}
		if err := b.end(); err != nil {
			t.Error(err)
		}
	})
}

// busyStore lets something happen while it writes.
type busyStore struct {
	*store
	meanwhile func()
}

func (s *busyStore) Save(ctx context.Context, l wal.LSN) error {
	s.meanwhile()
	return s.store.Save(ctx, l)
}

// TestAckDuringAWrite: what is acknowledged while the position is written isn't covered by that write. It
// must not be confirmed to Postgres, and is due for a write of its own.
func TestAckDuringAWrite(t *testing.T) {
	b := rig(t, nil)
	if _, err := b.store.Take(t.Context()); err != nil {
		t.Fatal(err)
	}
	tracker := checkpoint.NewTracker(10, checkpoint.Limits{})
	var tickets [2]uint64
	for i, end := range []wal.LSN{28, 38} {
		tickets[i], _ = tracker.Add(1)
		tracker.Seal(end)
	}
	tracker.Ack(tickets[0], 1, 1)
	b.Relay.cfg.Store = &busyStore{b.store, func() { tracker.Ack(tickets[1], 1, 1) }}
	if err := b.save(t.Context(), tracker); err != nil {
		t.Fatal(err)
	}
	if got := b.stored.Stored(); got != 28 || b.store.at() != 28 {
		t.Errorf("told Postgres %s with %s stored, want 0/1C for both", got, b.store.at())
	}
	confirmed, events := tracker.Progress()
	if !checkpoint.DueToSave(b.stored.Stored(), confirmed, events > b.storedEvents.Load()) {
		t.Errorf("the event up to %s is taken for stored", confirmed)
	}
}

// TestShortSessionAfterALongOne: a session's events are counted from its own beginning. Counted on from the
// one before, the first ones of a new session would pass for stored, and each crash repeat them.
func TestShortSessionAfterALongOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := rig(t, nil,
			&source{frames: script(one(20), one(30), one(40)), pace: saveEvery + saveLook, fail: errors.New("the server is gone")},
			&source{frames: one(50)})
		b.run(t)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := b.store.at(); got != 58 {
			t.Errorf("stored %s a minute after the last event, want 0/3A", got)
		}
		if err := b.end(); err != nil {
			t.Error(err)
		}
	})
}
