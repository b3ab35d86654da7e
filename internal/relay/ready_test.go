package relay

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/rs/zerolog"

	"github.com/cdc-relay/cdc-relay/checkpoint"
	"github.com/cdc-relay/cdc-relay/shard"
	"github.com/cdc-relay/cdc-relay/wal"
)

// TestStallIsNotReady: events that wait for Kafka without any progress are what readiness is for.
func TestStallIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := rig(t, nil, &source{frames: one(20)})
		b.Relay.cfg.Sink = holding(b, func() { b.recorder.HoldAcks() })
		b.run(t)
		time.Sleep(stalled - time.Second)
		if s := b.Status(); !s.Ready {
			t.Errorf("not ready before the time: %s", s.Reason)
		}
		time.Sleep(2 * time.Second)
		if s := b.Status(); s.Ready || !strings.Contains(s.Reason, "1 events wait for Kafka") {
			t.Errorf("status %+v, want not ready because of the event that waits", s)
		}
		b.recorder.Release()
		time.Sleep(time.Second)
		if s := b.Status(); !s.Ready {
			t.Errorf("not ready although all is acknowledged: %s", s.Reason)
		}
		if err := b.end(); err != nil {
			t.Error(err)
		}
	})
}

// TestLongTransactionIsNoStall: the position doesn't move before its end, but what is acknowledged does.
func TestLongTransactionIsNoStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		frames := script(begin(20), outbox)
		for range 80 {
			frames = append(frames, insert(1, order("1", "a")))
		}
		b := rig(t, nil, &source{frames: append(frames, commit(20, 28))})
		b.Relay.cfg.Sink = holding(b, func() { b.recorder.Hold() })
		b.run(t)
		where := shard.Partition(shard.SHA256, []byte("a"), 12)
		for range 60 {
			b.recorder.Pass("orders", where, 1)
			time.Sleep(time.Second)
			if s := b.Status(); !s.Ready {
				t.Fatalf("not ready while each second an event is published: %s", s.Reason)
			}
		}
		b.recorder.Release()
		if err := b.end(); err != nil {
			t.Error(err)
		}
	})
}

// TestStoppedTopicIsNotReady: a topic that can't be published to holds everything up.
func TestStoppedTopicIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := rig(t, nil, &source{frames: one(20)})
		b.Relay.cfg.Sink = holding(b, func() { b.recorder.FailTopic("orders", errors.New("not authorized")) })
		b.run(t)
		time.Sleep(time.Second)
		if s := b.Status(); s.Ready || !strings.Contains(s.Reason, `topic "orders" can't be published to: not authorized`) {
			t.Errorf("status %+v, want not ready because of the topic", s)
		}
		b.recorder.FailTopic("orders", nil)
		time.Sleep(time.Second)
		if s := b.Status(); !s.Ready {
			t.Errorf("not ready although the topic is back: %s", s.Reason)
		}
		if err := b.end(); err != nil {
			t.Error(err)
		}
	})
}

// TestHaltSaysWhyAgainAndAgain: whoever looks an hour later finds event and cause in the status, and in the
// last minute of the log.
func TestHaltSaysWhyAgainAndAgain(t *testing.T) {
	refused := wal.Position{Lineage: 1, Commit: 20}
	for name, frames := range map[string][]wal.Frame{
		"a row that is no event":      script(begin(20), outbox, insert(1, bad), commit(20, 28)),
		"a record that Kafka refuses": one(20),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log journal
				b := rig(t, func(c *Config) { c.Log = zerolog.New(&log) }, &source{frames: frames})
				b.Relay.cfg.Sink = holding(b, func() { b.recorder.Refuse(refused, errors.New("too large")) })
				b.run(t)
				for range 5 {
					log.take()
					time.Sleep(haltRetry + time.Second)
					synctest.Wait()
					if s := b.Status(); s.Ready || !strings.Contains(s.Reason, refused.String()) {
						t.Errorf("status %+v doesn't name the event %s", s, refused)
					}
					if got := log.take(); !strings.Contains(got, `"level":"error"`) || !strings.Contains(got, refused.String()) || !strings.Contains(got, "halted") {
						t.Errorf("in a minute of the halt the log says only %q", got)
					}
				}
				if err := b.end(); err == nil {
					t.Error("a stop while halted must not look clean")
				}
			})
		})
	}
}

// TestNothingPassesARefusedRecord: also what is read later, and has another key, stays behind it.
func TestNothingPassesARefusedRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := wal.Position{Lineage: 1, Commit: 20}
		b := rig(t, nil, &source{pace: time.Second, frames: script(
			one(20), begin(30), insert(1, order("2", "b")), commit(30, 38), begin(40), insert(1, order("3", "c")), commit(40, 48), idle(500))})
		b.Relay.cfg.Sink = holding(b, func() { b.recorder.Refuse(refused, errors.New("too large")) })
		b.run(t)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if n := b.recorder.Counts().Taken; n != 1 {
			t.Errorf("%d records went to the sink, want none past the one that Kafka refuses", n)
		}
		if got := b.store.at(); got != 10 {
			t.Errorf("stored %s past a refused record", got)
		}
		b.recorder.Refuse(refused, nil)
		time.Sleep(2 * haltRetry)
		synctest.Wait()
		if n := b.published(); n != 3 {
			t.Errorf("published %d after the cause was mended, want 3", n)
		}
		if err := b.end(); err != nil {
			t.Error(err)
		}
	})
}

// TestFinal: what no retry mends ends the relay, and what may pass is tried again.
func TestFinal(t *testing.T) {
	pg := func(code string) error {
		return fmt.Errorf("connect: %w", &pgconn.PgError{Code: code})
	}
	for name, c := range map[string]struct {
		err  error
		code int // 0: tried again
	}{
		"wrong password":               {pg("28P01"), 2},
		"no line in pg_hba.conf":       {pg("28000"), 2},
		"no such database":             {pg("3D000"), 2},
		"no such schema":               {pg("3F000"), 2},
		"no such table":                {pg("42P01"), 2},
		"no privilege":                 {pg("42501"), 2},
		"publication missing":          {fmt.Errorf("stream: %w", wal.ErrPublicationMissing), 2},
		"server too old":               {fmt.Errorf("connect: %w", wal.ErrServerTooOld), 2},
		"stored below the start":       {fmt.Errorf("start: %w", &StartError{}), 4},
		"refused by Decide":            {&checkpoint.RefuseError{}, 4},
		"tables missing":               {&checkpoint.SetupError{}, 2},
		"contract differs":             {&ContractError{}, 2},
		"other publication":            {&PublicationError{}, 2},
		"connection lost":              {errors.New("connection reset by peer"), 0},
		"server stops":                 {pg("57P01"), 0},
		"server starts":                {pg("57P03"), 0},
		"too many connections":         {pg("53300"), 0},
		"disk full":                    {pg("53100"), 0},
		"slot in use":                  {&wal.SlotActiveError{Err: pg("55006")}, 0},
		"slot gone, to be decided on":  {fmt.Errorf("start: %w", wal.ErrSlotMissing), 0},
		"slot lost, to be decided on":  {fmt.Errorf("start: %w", wal.ErrSlotLost), 0},
		"slot being made":              {checkpoint.ErrSlotBeingMade, 0},
		"row changed, decide again":    {checkpoint.ErrChanged, 0},
		"another relay owns the slot":  {checkpoint.ErrOwnerLost, 0},
		"could not serialize":          {pg("40001"), 0},
		"internal error of the server": {pg("XX000"), 0},
	} {
		err := final(c.err)
		var coded coder
		switch {
		case c.code == 0 && err != nil:
			t.Errorf("%s: %v ends the relay, and may pass", name, err)
		case c.code != 0 && (!errors.As(err, &coded) || coded.ExitCode() != c.code):
			t.Errorf("%s: got %v, want an end with exit code %d", name, err, c.code)
		}
	}
}

// TestOldestUnconfirmedIsSaid: how far the consumers are behind is the age of the oldest commit that is not
// wholly acknowledged.
func TestOldestUnconfirmedIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := rig(t, nil, &source{frames: one(20)})
		b.Relay.cfg.Sink = holding(b, func() { b.recorder.HoldAcks() })
		b.run(t)
		if got := b.Status().OldestUnconfirmed; !got.Equal(committed) {
			t.Errorf("with an event in flight the oldest is of %s, want its commit: %s", got, committed)
		}
		b.recorder.Release()
		synctest.Wait()
		if got := b.Status().OldestUnconfirmed; !got.IsZero() {
			t.Errorf("with nothing in flight the oldest is of %s", got)
		}
		if err := b.end(); err != nil {
			t.Error(err)
		}
	})
}
