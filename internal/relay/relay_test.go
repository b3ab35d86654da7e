package relay

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/cdc-relay/cdc-relay/checkpoint"
	"github.com/cdc-relay/cdc-relay/decode"
	"github.com/cdc-relay/cdc-relay/sink"
	"github.com/cdc-relay/cdc-relay/sink/sinktest"
	"github.com/cdc-relay/cdc-relay/wal"
)

// bench is a relay on scripted servers.
type bench struct {
	*Relay
	origins   *origins
	store     *store
	recorder  *sinktest.Recorder
	contracts *contracts
	stop      context.CancelFunc
	done      chan error
}

// rig makes a relay that reads the sources in turn. change may alter its configuration.
func rig(t *testing.T, change func(*Config), sources ...*source) *bench {
	t.Helper()
	b := &bench{store: &store{stored: 10}, contracts: &contracts{}, done: make(chan error, 1)}
	b.origins = &origins{sources: sources, start: b.store.at}
	cfg := Config{
		Slot: "s", Publication: "p", Origins: b.origins, Store: b.store, Contracts: b.contracts,
		Catalog: tables{"public.outbox": decode.Outbox, "public.other": decode.Foreign},
		Sink: func(h sink.Handler) (sink.Sink, error) {
			b.recorder = sinktest.NewRecorder(h)
			return b.recorder, nil
		},
		Check:  func(context.Context) error { return nil },
		Limits: checkpoint.Limits{Events: 100, Bytes: 1 << 20}, Drain: 20 * time.Second, Log: zerolog.Nop(),
	}
	if change != nil {
		change(&cfg)
	}
	b.Relay = New(cfg)
	return b
}

// run starts the relay in the bubble of a synctest.
func (b *bench) run(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	b.stop = stop
	t.Cleanup(stop)
	go func() { b.done <- b.Run(ctx) }()
	synctest.Wait()
}

// end asks the relay to stop and returns what Run did.
func (b *bench) end() error {
	b.stop()
	return b.ended()
}

// endLeaving stops the relay and wants it to say that so many events will repeat; none is a clean stop.
func (b *bench) endLeaving(t *testing.T, n int) {
	t.Helper()
	err := b.end()
	var left *UnackedError
	switch {
	case n == 0 && err != nil:
		t.Errorf("stop: %v, want a clean one", err)
	case n > 0 && (!errors.As(err, &left) || left.Events != n):
		t.Errorf("stop: %v, want %d events that will repeat", err, n)
	}
}

// ended waits until the relay has ended and returns what Run did.
func (b *bench) ended() error {
	select {
	case err := <-b.done:
		return err
	case <-time.After(time.Hour):
		return errors.New("the relay doesn't end")
	}
}

// ids are the dedupe keys that were published, over all partitions, in no order.
func (b *bench) published() int {
	n := 0
	for p := range int32(12) {
		n += len(b.recorder.Published("orders", p))
	}
	return n
}

func script(parts ...any) []wal.Frame {
	var fs []wal.Frame
	for _, p := range parts {
		switch p := p.(type) {
		case wal.Frame:
			fs = append(fs, p)
		case []wal.Frame:
			fs = append(fs, p...)
		}
	}
	return fs
}

var outbox = relation(1, "public", "outbox")

func TestPublishesAndStoresTheEndOfTheCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := rig(t, nil, &source{frames: script(begin(20), outbox, insert(1, order("1", "a")), insert(1, order("2", "b")), commit(20, 28))})
		b.run(t)
		time.Sleep(saveLook)
		synctest.Wait()
		if got := b.store.at(); got != 28 {
			t.Errorf("stored %s, want the end LSN 0/1C", got)
		}
		if err := b.end(); err != nil {
			t.Errorf("clean stop: %v", err)
		}
		if n := b.published(); n != 2 {
			t.Errorf("published %d events, want 2", n)
		}
		if got := b.contracts.pins; len(got) != 1 {
			t.Errorf("pinned %v, want orders once", got)
		}
	})
}

func TestNothingIsStoredPastAnUnackedEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := rig(t, nil, &source{frames: script(
			begin(20), outbox, insert(1, order("1", "a")), commit(20, 28),
			begin(30), insert(1, order("2", "a")), commit(30, 38), idle(500))})
		b.Relay.cfg.Sink = holding(b, func() { b.recorder.HoldAcks() })
		b.run(t)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := b.store.at(); got != 10 {
			t.Errorf("stored %s with nothing acknowledged", got)
		}
		b.recorder.Release()
		time.Sleep(saveEvery)
		synctest.Wait()
		if got := b.store.at(); got != 500 {
			t.Errorf("stored %s after all acks, want the idle position 0/1F4", got)
		}
		if err := b.end(); err != nil {
			t.Error(err)
		}
	})
}

// holding wraps the bench's sink so that it is held from the first record on.
func holding(b *bench, hold func()) func(sink.Handler) (sink.Sink, error) {
	open := b.Relay.cfg.Sink
	return func(h sink.Handler) (sink.Sink, error) {
		s, err := open(h)
		hold()
		return s, err
	}
}

func TestStopReadsOnToTheEndOfTheTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		frames := script(begin(20), outbox)
		for range 300 { // more than may be in flight, so that the stop falls inside
			frames = append(frames, insert(1, order("1", "a")))
		}
		frames = append(frames, commit(20, 28))
		frames = append(frames, script(begin(30), insert(1, order("2", "a")), commit(30, 38))...)
		src := &source{frames: frames}
		b := rig(t, nil, src)
		b.Relay.cfg.Sink = holding(b, func() { b.recorder.Hold() })
		b.run(t)
		b.stop()
		synctest.Wait()
		b.recorder.Release()
		if err := b.ended(); err != nil {
			t.Errorf("stop: %v", err)
		}
		if n := b.published(); n != 300 {
			t.Errorf("published %d events, want the 300 of the open transaction and none of the next", n)
		}
		if got := b.store.at(); got != 28 {
			t.Errorf("stored %s, want 0/1C", got)
		}
		if src.final != 28 {
			t.Errorf("the stream ended with %s confirmed, want 0/1C", src.final)
		}
	})
}

func TestStopThatCannotDrainSaysHowManyWillRepeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := rig(t, nil, &source{frames: script(begin(20), outbox, insert(1, order("1", "a")), insert(1, order("2", "b")), commit(20, 28))})
		b.Relay.cfg.Sink = holding(b, func() { b.recorder.HoldAcks() })
		b.run(t)
		began := time.Now()
		err := b.end()
		var left *UnackedError
		if !errors.As(err, &left) || left.Events != 2 || left.ExitCode() != 1 {
			t.Errorf("stop: %v, want 2 events unacknowledged and exit code 1", err)
		}
		if d := time.Since(began); d < 20*time.Second || d > 25*time.Second {
			t.Errorf("the stop took %s, want the 20 s of the drain and little more", d)
		}
		if got := b.store.at(); got != 10 {
			t.Errorf("stored %s", got)
		}
	})
}

func TestReconnectStartsAtTheStoredPosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := &source{frames: script(begin(20), outbox, insert(1, order("1", "a")), commit(20, 28), begin(30), insert(1, order("2", "a"))), fail: errors.New("connection reset"), pace: time.Millisecond}
		again := &source{frames: script(begin(30), outbox, insert(1, order("2", "a")), commit(30, 38))}
		b := rig(t, nil, lost, again)
		b.run(t)
		time.Sleep(time.Minute)
		synctest.Wait()
		if again.started != 28 {
			t.Errorf("started again at %s, want the stored 0/1C", again.started)
		}
		if !lost.closed {
			t.Error("the lost connection was not closed")
		}
		if err := b.end(); err != nil {
			t.Error(err)
		}
		if n := b.published(); n != 3 { // the event of the open transaction repeats
			t.Errorf("published %d records, want 3", n)
		}
		if got := b.store.at(); got != 38 {
			t.Errorf("stored %s, want 0/26", got)
		}
	})
}

func TestUnackedOfALostSessionGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := &source{frames: script(begin(20), outbox, insert(1, order("1", "a")), commit(20, 28)), fail: errors.New("connection reset"), pace: time.Millisecond}
		again := &source{frames: script(begin(20), outbox, insert(1, order("1", "a")), commit(20, 28))}
		b := rig(t, nil, lost, again)
		b.Relay.cfg.Sink = holding(b, func() { b.recorder.Hold() })
		b.run(t)
		time.Sleep(time.Minute)
		synctest.Wait()
		if b.origins.opened() != 2 {
			t.Fatalf("opened %d connections, want the second one although Kafka is away", b.origins.opened())
		}
		if n := b.recorder.Counts().Taken; n != 1 {
			t.Errorf("%d records were produced; the second session must wait for what the first one left", n)
		}
		b.recorder.Release()
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := b.store.at(); got != 28 {
			t.Errorf("stored %s, want 0/1C", got)
		}
		if err := b.end(); err != nil {
			t.Error(err)
		}
	})
}

func TestOwnerLostGoesToStandby(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &source{frames: script(begin(20), outbox, insert(1, order("1", "a")), commit(20, 28))}
		b := rig(t, nil, src)
		b.store.lost = true
		b.run(t)
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		if s := b.Status(); s.Phase != PhaseStandby || !s.Ready {
			t.Errorf("status %+v, want a ready standby", s)
		}
		if err := b.end(); err != nil {
			t.Errorf("stop of a standby: %v", err)
		}
	})
}

func TestStoredBelowTheStartIsFatal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := rig(t, nil, &source{})
		b.origins.start = func() wal.LSN { return 11 }
		b.run(t)
		var wrong *StartError
		if err := b.ended(); !errors.As(err, &wrong) || wrong.ExitCode() != 4 {
			t.Errorf("Run: %v, want a StartError with exit code 4", err)
		}
	})
}

func TestStopWhileWaitingForPostgres(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := rig(t, nil, &source{})
		b.origins.err = errors.New("connection refused")
		b.run(t)
		time.Sleep(time.Minute)
		if s := b.Status(); s.Phase != PhaseWaiting || s.Ready || !strings.Contains(s.Reason, "refused") {
			t.Errorf("status %+v, want waiting and why", s)
		}
		if err := b.end(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
}

func TestPositionThatCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := rig(t, nil, &source{frames: script(begin(20), outbox, insert(1, order("1", "a")), commit(20, 28))})
		b.store.fail = errors.New("disk full")
		b.run(t)
		time.Sleep(30 * time.Second)
		if s := b.Status(); !s.Ready {
			t.Errorf("not ready after 30 s: %s", s.Reason)
		}
		time.Sleep(40 * time.Second)
		if s := b.Status(); s.Ready || !strings.Contains(s.Reason, "disk full") {
			t.Errorf("status %+v, want not ready because of the disk", s)
		}
		if b.Relay.stored.Stored() != 10 {
			t.Error("Postgres would be told a position that is not stored")
		}
		var left *UnackedError
		if err := b.end(); !errors.As(err, &left) || left.Events != 1 {
			t.Errorf("stop: %v, want 1 event that will repeat", err)
		}
	})
}
