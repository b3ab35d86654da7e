package relay

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/cdc-relay/cdc-relay/decode"
	"github.com/cdc-relay/cdc-relay/shard"
	"github.com/cdc-relay/cdc-relay/wal"
)

// bad is a row that can never be an event.
var bad = map[string]string{"entity_id": "a", "event_type": "t", "payload": "{}", "created_at": "2025-12-26 00:00:00+00"}

func TestBadRowHaltsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := rig(t, nil, &source{frames: script(
			begin(20), outbox, insert(1, order("1", "a")), commit(20, 28),
			begin(30), insert(1, bad), commit(30, 38),
			begin(40), insert(1, order("3", "c")), commit(40, 48), idle(500))})
		b.run(t)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if n := b.published(); n != 1 {
			t.Errorf("published %d events, want only the one before the bad row", n)
		}
		if got := b.store.at(); got != 28 {
			t.Errorf("stored %s, want what lies before the bad row: 0/1C", got)
		}
		if s := b.Status(); s.Phase != PhaseHalted || s.Ready {
			t.Errorf("status %+v, want halted", s)
		}
		began := time.Now()
		var left *UnackedError
		if err := b.end(); !errors.As(err, &left) || left.Events != 0 {
			t.Errorf("stop while halted: %v, want exit 1 with nothing that repeats", err)
		}
		if time.Since(began) > time.Second {
			t.Error("the halt held the stop up")
		}
	})
}

func TestMessageOfOurOwnHalts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ignored []byte
		b := rig(t, func(c *Config) { c.Events.Ignored = func(op byte) { ignored = append(ignored, op) } }, &source{frames: script(
			message(0, "cdc_relay"), message(0, "other"),
			begin(20), message(1, "other"), outbox, insert(1, order("1", "a")), commit(20, 28),
			begin(30), message(1, "cdc_relay"), commit(30, 38))})
		b.run(t)
		time.Sleep(time.Minute)
		synctest.Wait()
		if string(ignored) != "M" {
			t.Errorf("ignored %q, want one message of ours that wasn't transactional", ignored)
		}
		if s := b.Status(); s.Phase != PhaseHalted || b.store.at() != 28 {
			t.Errorf("status %+v, stored %s: want halted at the message", s, b.store.at())
		}
		if err := b.end(); err == nil {
			t.Error("a stop while halted must not look clean")
		}
	})
}

func TestExitOnHalt(t *testing.T) {
	for name, frames := range map[string][]wal.Frame{
		"bad row":       script(begin(20), outbox, insert(1, bad), commit(20, 28)),
		"relation gone": script(begin(20), relation(9, "public", "gone"), insert(9, order("1", "a")), commit(20, 28)),
		"unknown frame": script(wal.Frame{Data: []byte("?")}),
		"message":       script(begin(20), message(1, "cdc_relay.orders"), commit(20, 28)),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := rig(t, func(c *Config) { c.ExitOnHalt = true }, &source{frames: frames})
				b.run(t)
				var halt *HaltError
				if err := b.ended(); !errors.As(err, &halt) || halt.ExitCode() != 5 {
					t.Errorf("Run: %v, want a HaltError with exit code 5", err)
				}
			})
		})
	}
}

func TestRefusedRecordHoldsEverythingAndHeals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &source{frames: script(begin(20), outbox, insert(1, order("1", "a")), commit(20, 28))}
		b := rig(t, nil, src)
		refused := wal.Position{Lineage: 1, Commit: 20}
		b.Relay.cfg.Sink = holding(b, func() { b.recorder.Refuse(refused, errors.New("too large")) })
		src.frames = append(src.frames, script(begin(30), insert(1, order("2", "b")), commit(30, 38))...)
		b.run(t)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if s := b.Status(); s.Phase != PhaseHalted {
			t.Errorf("status %+v, want halted", s)
		}
		if got := b.store.at(); got != 10 {
			t.Errorf("stored %s past a refused record", got)
		}
		b.recorder.Refuse(refused, nil) // the operator raised the limit
		time.Sleep(haltRetry + time.Second)
		synctest.Wait()
		if s := b.Status(); s.Phase != PhaseStreaming || !s.Ready {
			t.Errorf("status %+v after the cause was mended", s)
		}
		if err := b.end(); err != nil {
			t.Error(err)
		}
		if n := b.published(); n != 2 || b.store.at() != 38 {
			t.Errorf("published %d, stored %s; want 2 and 0/26", n, b.store.at())
		}
	})
}

func TestForeignRowsAreSteppedOverAndUnknownOnesAreNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		known := tables{"public.outbox": decode.Outbox, "public.other": decode.Foreign}
		b := rig(t, func(c *Config) { c.Catalog = known }, &source{frames: script(
			begin(20), relation(2, "public", "other"), insert(2, order("1", "a")), outbox, insert(1, order("2", "a")), commit(20, 28),
			begin(30), relation(3, "public", "dropped"), insert(3, order("3", "a")), commit(30, 38))})
		b.run(t)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := b.published(); n != 1 {
			t.Fatalf("published %d events, want 1", n)
		}
		// The foreign row before it counts, so that a filter at our side changes no position.
		for p := range int32(12) {
			for _, r := range b.recorder.Published("orders", p) {
				if want := (wal.Position{Lineage: 1, Commit: 20, Seq: 1}); r.Position != want {
					t.Errorf("position %s, want %s", r.Position, want)
				}
			}
		}
		if got := b.store.at(); got != 28 {
			t.Errorf("stored %s, want 0/1C: the row of the dropped table must not be stepped over", got)
		}
		if err := b.end(); err == nil {
			t.Error("a stop while halted must not look clean")
		}
	})
}

func TestStopIsNotHeldUpByARefusedRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := rig(t, nil, &source{frames: script(begin(20), outbox, insert(1, order("1", "a")), commit(20, 28))})
		b.Relay.cfg.Sink = holding(b, func() { b.recorder.Refuse(wal.Position{Lineage: 1, Commit: 20}, errors.New("too large")) })
		b.run(t)
		time.Sleep(time.Second)
		synctest.Wait()
		began := time.Now()
		var left *UnackedError
		if err := b.end(); !errors.As(err, &left) || left.Events != 1 {
			t.Errorf("stop: %v, want one event that will repeat", err)
		}
		if d := time.Since(began); d > 2*finalStatus {
			t.Errorf("the stop took %s, and waiting mends nothing", d)
		}
	})
}

// TestGateOpensWhileAnotherRelayHoldsTheSlot: the record that halted may be acknowledged when this
// relay has no session, and with that the halt is over.
func TestGateOpensWhileAnotherRelayHoldsTheSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := wal.Position{Lineage: 1, Commit: 20}
		b := rig(t, nil, &source{frames: script(begin(20), outbox, insert(1, order("1", "a")), commit(20, 28))},
			&source{frames: script(begin(20), outbox, insert(1, order("1", "a")), commit(20, 28), begin(30), insert(1, order("2", "a")), commit(30, 38))})
		b.Relay.cfg.Sink = holding(b, func() { b.recorder.Refuse(refused, errors.New("too large")) })
		b.run(t)
		b.store.lose(true)
		time.Sleep(20 * time.Second)
		b.recorder.Refuse(refused, nil)
		time.Sleep(2 * haltRetry)
		b.store.lose(false)
		time.Sleep(haltRetry)
		synctest.Wait()
		if s := b.Status(); s.Phase != PhaseStreaming || b.store.at() != 38 {
			t.Errorf("status %+v, stored %s: want it to stream again, up to 0/26", s, b.store.at())
		}
		if err := b.end(); err != nil {
			t.Error(err)
		}
	})
}

// TestTopicThatDoesNotFitLaterHalts: what ends a relay at its start holds it where it is at work.
func TestTopicThatDoesNotFitLaterHalts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := rig(t, nil, &source{frames: script(begin(20), outbox, insert(1, order("1", "a")), commit(20, 28))})
		b.contracts.unfit.Store(&ContractError{Topic: "orders", Reason: "it is gone"})
		b.run(t)
		time.Sleep(10 * time.Second)
		if s := b.Status(); s.Phase != PhaseHalted {
			t.Errorf("status %+v, want halted", s)
		}
		b.contracts.unfit.Store(nil)
		time.Sleep(haltRetry)
		synctest.Wait()
		if n := b.published(); n != 1 {
			t.Errorf("published %d events after the topic was there again, want 1", n)
		}
		if err := b.end(); err != nil {
			t.Error(err)
		}
	})
}

// TestGateWaitsForTheLastRefusedRecord: several partitions may each have a record refused. That one of them
// has been published opens nothing while another one hasn't.
func TestGateWaitsForTheLastRefusedRecord(t *testing.T) {
	g := newGate(false, zerolog.Nop(), nil)
	first, second := wal.Position{Lineage: 1, Commit: 20}, wal.Position{Lineage: 1, Commit: 20, Seq: 1}
	g.shut(first, errors.New("too large"))
	g.shut(second, errors.New("too large"))
	ended, end := context.WithCancel(t.Context())
	end()
	for _, p := range []wal.Position{second, first} {
		if !g.isShut.Load() || g.wait(ended, nil) == nil || g.cause() == nil {
			t.Fatalf("the gate is open, and the record at %s hasn't been published", p)
		}
		g.open(p)
	}
	if err := g.wait(ended, nil); err != nil || g.isShut.Load() || g.cause() != nil {
		t.Errorf("the gate stays shut, and both records have been published: %v", err)
	}
}

// TestRefusedRecordHoldsItsOwnTransaction: what is refused holds also the events behind it in its own
// transaction, which may be a large one.
func TestRefusedRecordHoldsItsOwnTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := wal.Position{Lineage: 1, Commit: 20}
		b := rig(t, nil, &source{pace: time.Second, frames: script(
			begin(20), outbox, insert(1, order("1", "a")), insert(1, order("2", "b")), insert(1, order("3", "c")), commit(20, 28))})
		b.Relay.cfg.Sink = holding(b, func() { b.recorder.Refuse(refused, errors.New("too large")) })
		b.run(t)
		time.Sleep(haltRetry)
		synctest.Wait()
		if n := b.recorder.Counts().Taken; n != 1 {
			t.Errorf("%d records went to the sink, want none past the one that Kafka refuses", n)
		}
		b.recorder.Refuse(refused, nil)
		time.Sleep(2 * haltRetry)
		synctest.Wait()
		if n := b.published(); n != 3 || b.store.at() != 28 {
			t.Errorf("published %d and stored %s after the cause was mended, want 3 and 0/1C", n, b.store.at())
		}
		if err := b.end(); err != nil {
			t.Error(err)
		}
	})
}

// TestWaitForRoomEndsAtAShutGate: an event that waited for room while another one was refused waits on,
// also when there is room now.
func TestWaitForRoomEndsAtAShutGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := wal.Position{Lineage: 1, Commit: 20}
		b := rig(t, func(c *Config) { c.Limits.Events = 2 }, &source{frames: script(
			begin(20), outbox, insert(1, order("1", "a")), insert(1, order("2", "d")), insert(1, order("3", "c")), commit(20, 28))})
		b.Relay.cfg.Sink = holding(b, func() {
			b.recorder.Hold()
			b.recorder.Refuse(refused, errors.New("too large"))
		})
		b.run(t)
		b.recorder.Pass("orders", shard.Partition(shard.SHA256, []byte("a"), 12), 1)
		synctest.Wait()
		b.recorder.Pass("orders", shard.Partition(shard.SHA256, []byte("d"), 12), 1)
		synctest.Wait()
		if c := b.recorder.Counts(); c.Rejects != 1 || c.Acked != 1 || c.Taken != 2 {
			t.Errorf("%+v, want one record refused, one acknowledged, and none taken behind them", c)
		}
		b.recorder.Refuse(refused, nil)
		b.recorder.Release()
		time.Sleep(2 * haltRetry)
		synctest.Wait()
		if n := b.published(); n != 3 || b.store.at() != 28 {
			t.Errorf("published %d and stored %s after the cause was mended, want 3 and 0/1C", n, b.store.at())
		}
		if err := b.end(); err != nil {
			t.Error(err)
		}
	})
}
