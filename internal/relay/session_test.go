package relay

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-relay/cdc-relay/decode"
	"github.com/cdc-relay/cdc-relay/shard"
	"github.com/cdc-relay/cdc-relay/wal"
)

// one is a transaction with one event: its key is a, its commit record lies at.
func one(at wal.LSN) []wal.Frame {
	return script(begin(at), outbox, insert(1, order("1", "a")), commit(at, at+8))
}

// TestTransactionAtTheStoredPosition: a commit record may begin right where the last one ended, so
// nothing may be stepped over because of its commit LSN: what the server sends was not published.
func TestTransactionAtTheStoredPosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := rig(t, nil, &source{frames: one(10)}) // 10 is stored
		b.run(t)
		time.Sleep(time.Second)
		synctest.Wait()
		if n := b.published(); n != 1 || b.store.at() != 18 {
			t.Errorf("published %d events, stored %s; want the one that commits at the stored position, and 0/12", n, b.store.at())
		}
		if err := b.end(); err != nil {
			t.Error(err)
		}
	})
}

// TestAcksOfALostSessionAreStored: what was acknowledged soon after the connection was lost doesn't repeat.
func TestAcksOfALostSessionAreStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		again := &source{}
		b := rig(t, nil, &source{frames: one(20), fail: errors.New("connection reset"), pace: time.Millisecond}, again)
		b.Relay.cfg.Sink = holding(b, func() { b.recorder.HoldAcks() })
		b.run(t)
		time.Sleep(settleWait / 2)
		b.recorder.Release()
		time.Sleep(settleWait)
		synctest.Wait()
		if again.started != 28 {
			t.Errorf("started again at %s, want the end of what was acknowledged meanwhile: 0/1C", again.started)
		}
		if err := b.end(); err != nil {
			t.Error(err)
		}
	})
}

// TestPositionIsThatOfTheRow: after a failover the row may be behind what this relay remembers, since its
// last write didn't reach the standby. To confirm the remembered position would skip what the new primary
// wrote in its place.
func TestPositionIsThatOfTheRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		again := &source{}
		b := rig(t, nil, &source{frames: one(20), fail: errors.New("connection reset"), pace: time.Second}, again)
		b.run(t)
		time.Sleep(4500 * time.Millisecond) // it was stored, and the connection is lost after 5 s
		synctest.Wait()
		if got := b.store.at(); got != 28 {
			t.Fatalf("stored %s, want 0/1C", got)
		}
		b.store.set(10)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if again.started != 10 || again.told != 10 || b.Status().Stored != 10 {
			t.Errorf("started at %s, would confirm %s, says %s; want the 0/A of the row", again.started, again.told, b.Status().Stored)
		}
		if err := b.end(); err != nil {
			t.Error(err)
		}
	})
}

// TestOwnerIsLookedAtWhileIdle: a relay that was frozen and wakes up may have nothing to store, and must
// find out all the same that another one took over.
func TestOwnerIsLookedAtWhileIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &source{}
		b := rig(t, nil, src)
		b.run(t)
		b.store.lose(true)
		time.Sleep(askEvery + time.Second)
		synctest.Wait()
		if s := b.Status(); s.Phase != PhaseStandby || !src.isClosed() {
			t.Errorf("status %+v, connection closed: %v; want a standby that holds nothing", s, src.isClosed())
		}
		if err := b.end(); err != nil {
			t.Error(err)
		}
	})
}

// TestStandbyTakesNothing: who doesn't hold the slot must not take the row from the one who does.
func TestStandbyTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := rig(t, nil, &source{refuse: &wal.SlotActiveError{Slot: "s", PID: 7, Err: &pgconn.PgError{Code: "55006"}}})
		b.run(t)
		time.Sleep(time.Minute)
		synctest.Wait()
		if b.store.takes != 0 {
			t.Errorf("took the row %d times from the relay that streams", b.store.takes)
		}
		if s := b.Status(); s.Phase != PhaseStandby || !s.Ready {
			t.Errorf("status %+v, want a ready standby", s)
		}
		if n := b.origins.opened(); n < 18 || n > 21 {
			t.Errorf("tried %d times in a minute, want every 3 s", n)
		}
		if err := b.end(); err != nil {
			t.Error(err)
		}
	})
}

// TestIdleKeepalivesWriteNothing: only a move that pins WAL is worth a write of its own.
func TestIdleKeepalivesWriteNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		frames := one(20)
		for i := range wal.LSN(60) {
			frames = append(frames, idle(1000+56*i))
		}
		b := rig(t, nil, &source{frames: append(frames, idle(1<<20)), pace: time.Second})
		b.run(t)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if got := b.store.saves; !slices.Equal(got, []wal.LSN{28, 1 << 20}) {
			t.Errorf("wrote %v in an idle minute, want the event's end and the move by 1 MiB", got)
		}
		if err := b.end(); err != nil {
			t.Error(err)
		}
	})
}

// asleep is a catalog that can't be asked at first.
type asleep struct {
	tables
	until time.Time
}

func (a asleep) Classify(ctx context.Context, id uint32, schema, name string) (decode.Class, error) {
	if time.Now().Before(a.until) {
		return decode.Foreign, errors.New("connection refused")
	}
	return a.tables.Classify(ctx, id, schema, name)
}

// TestRelationIsWaitedFor: while it can't be told what a relation is, its rows are neither published nor
// stepped over.
func TestRelationIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := rig(t, func(c *Config) {
			c.Catalog = asleep{tables{"public.outbox": decode.Outbox}, time.Now().Add(30 * time.Second)}
		}, &source{frames: script(one(20), idle(500))})
		b.run(t)
		time.Sleep(29 * time.Second)
		synctest.Wait()
		if got := b.store.at(); got != 10 {
			t.Errorf("stored %s past a row that nobody looked at", got)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := b.published(); n != 1 || b.store.at() != 500 {
			t.Errorf("published %d, stored %s; want 1 and 0/1F4", n, b.store.at())
		}
		if err := b.end(); err != nil {
			t.Error(err)
		}
	})
}

// TestNothingIsPublishedBeforeTheContractIsPinned: a record must not rest on terms that a crash can change.
func TestNothingIsPublishedBeforeTheContractIsPinned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := rig(t, nil, &source{frames: one(20)})
		b.contracts.hold = make(chan struct{})
		b.run(t)
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := b.recorder.Counts().Taken; n != 0 {
			t.Errorf("%d records went to the sink before the contract was stored", n)
		}
		close(b.contracts.hold)
		synctest.Wait()
		if n := b.published(); n != 1 {
			t.Errorf("published %d, want 1", n)
		}
		if err := b.end(); err != nil {
			t.Error(err)
		}
	})
}

// TestContractInForceAtTheCommit: the terms are those of each transaction's own commit, also where a later
// contract is known already, or the first one was used a moment ago.
func TestContractInForceAtTheCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		event := insert(1, order("1", "order:A-2")) // of 12 partitions it has 10, of 3 it has 1
		b := rig(t, nil, &source{frames: script(
			begin(20), outbox, event, commit(20, 28), begin(30), event, commit(30, 38), begin(40), event, event, commit(40, 48))})
		b.contracts.later = shard.Contracts{{Topic: "orders", No: 2, Lineage: 1, From: 30, PartitionCount: 3, Hash: shard.SHA256}}
		b.run(t)
		if tenth, first := len(b.recorder.Published("orders", 10)), len(b.recorder.Published("orders", 1)); tenth != 1 || first != 3 {
			t.Errorf("%d events in the partition of the first contract and %d in that of the second, want 1 and 3", tenth, first)
		}
		if err := b.end(); err != nil {
			t.Error(err)
		}
	})
}

// TestTransactionWithoutLineage: a position that nobody numbered would be given to two events.
func TestTransactionWithoutLineage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := rig(t, nil, &source{frames: one(20)})
		b.origins.lineages = wal.Lineages{{No: 2, From: 100}}
		b.run(t)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if s := b.Status(); b.published() != 0 || b.store.at() != 10 || s.Ready || !strings.Contains(s.Reason, "lineage") {
			t.Errorf("published %d, stored %s, status %+v; want nothing, and why", b.published(), b.store.at(), s)
		}
		if err := b.end(); err != nil {
			t.Error(err)
		}
	})
}

// TestServerThatStopsIsLetGoWithEventsInFlight: their acks are waited for after the stream has ended, since
// the server waits for the stream.
func TestServerThatStopsIsLetGoWithEventsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &source{frames: one(20)}
		b := rig(t, nil, src, &source{})
		b.Relay.cfg.Sink = holding(b, func() { b.recorder.HoldAcks() })
		b.run(t)
		b.store.failWith(&pgconn.PgError{Code: "57P03", Message: "the database system is shutting down"})
		time.Sleep(askEvery + time.Second)
		synctest.Wait()
		if !src.hasEnded() {
			t.Error("the stream goes on although the server is stopping")
		}
		b.store.failWith(nil)
		b.recorder.Release()
		if err := b.end(); err != nil {
			t.Error(err)
		}
	})
}
