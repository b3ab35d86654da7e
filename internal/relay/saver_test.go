package relay

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

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
