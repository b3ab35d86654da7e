package relay

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-relay/cdc-relay/wal"
)

func TestKafkaThatDoesNotFitEndsTheRelayBeforeItStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		small := &ContractError{Topic: "orders", Reason: "it has 3 partitions, and the contract counts on 4"}
		b := rig(t, func(c *Config) { c.Check = func(context.Context) error { return small } }, &source{})
		b.run(t)
		if err := b.ended(); !errors.Is(err, small) {
			t.Errorf("Run: %v, want %v", err, small)
		}
		if b.origins.opened() != 0 {
			t.Error("a slot was made for a relay that can't work")
		}
	})
}

func TestKafkaThatIsAwayDoesNotHoldUpTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back := time.Now().Add(time.Minute)
		b := rig(t, func(c *Config) {
			c.Check = func(context.Context) error {
				if time.Now().Before(back) {
					return errors.New("no broker can be reached")
				}
				return nil
			}
		}, &source{frames: script(begin(20), outbox, insert(1, order("1", "a")), commit(20, 28))})
		b.run(t)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if b.origins.opened() != 1 {
			t.Error("the slot isn't held while Kafka is away")
		}
		if s := b.Status(); s.Ready || !strings.Contains(s.Reason, "no broker") {
			t.Errorf("status %+v, want not ready because of Kafka", s)
		}
		time.Sleep(time.Minute)
		if s := b.Status(); !s.Ready {
			t.Errorf("status %+v, want ready", s)
		}
		if err := b.end(); err != nil {
			t.Error(err)
		}
	})
}

func TestPositionIsWrittenAtMostOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &source{frames: script(outbox), pace: 10 * time.Millisecond}
		for i := range wal.LSN(1000) {
			at := 100 + 10*i
			src.frames = append(src.frames, script(begin(at), insert(1, order("1", "a")), commit(at, at+8))...)
		}
		b := rig(t, nil, src)
		b.run(t)
		time.Sleep(saveLook)
		synctest.Wait()
		if n := b.store.writes(); n != 1 {
			t.Errorf("%d writes in the first 100 ms, want one: a relay that dies again and again must get on", n)
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if n := b.store.writes(); n < 15 || n > 21 {
			t.Errorf("%d writes in 20 s of traffic, want one a second", n)
		}
		if err := b.end(); err != nil {
			t.Error(err)
		}
	})
}

// TestServerThatStopsIsLetGo: Postgres cuts SQL first and then waits for the walsender, which waits
// for this relay.
func TestServerThatStopsIsLetGo(t *testing.T) {
	for name, cause := range map[string]error{
		"shutting down": &pgconn.PgError{Code: "57P03", Message: "the database system is shutting down"},
		"refused":       fmt.Errorf("connect: %w", syscall.ECONNREFUSED),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := &source{}
				b := rig(t, nil, src)
				b.run(t)
				b.store.failWith(cause)
				time.Sleep(askEvery + time.Second)
				synctest.Wait()
				if !src.isClosed() {
					t.Error("the replication connection is held although the server is stopping")
				}
				b.store.failWith(nil)
				if err := b.end(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestPauseGrowsOnlyWithoutProgress: connections that are lost now and then, after each has published,
// are each tried again soon. Only tries in a row that achieve nothing wait longer and longer.
func TestPauseGrowsOnlyWithoutProgress(t *testing.T) {
	const losses = 12
	lost := errors.New("connection reset")
	for _, c := range []struct {
		name     string
		progress bool
		atLeast  time.Duration
		atMost   time.Duration
	}{
		{"with progress", true, 0, losses * 200 * time.Millisecond},
		{"without progress", false, losses * time.Second, losses * 6 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var sources []*source
				for i := range losses {
					s := &source{fail: lost, pace: time.Millisecond}
					if at := wal.LSN(20 + 10*i); c.progress {
						s.frames = script(begin(at), outbox, insert(1, order("1", "a")), commit(at, at+8))
					}
					sources = append(sources, s)
				}
				began := time.Now()
				var took time.Duration
				last := &source{}
				b := rig(t, nil, append(sources, last)...)
				b.Relay.cfg.Events.Reconnect = func(string) {
					if b.origins.opened() == losses {
						took = time.Since(began)
					}
				}
				b.run(t)
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				if took < c.atLeast || took > c.atMost {
					t.Errorf("%d sessions were lost within %s, want %s to %s", losses, took, c.atLeast, c.atMost)
				}
				if err := b.end(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestStopOfARelayThatWasTakenOver: what a relay left in flight is no longer its own to repeat once
// another one owns the row. While the slot is only busy, with its own old connection perhaps, it is.
func TestStopOfARelayThatWasTakenOver(t *testing.T) {
	for _, c := range []struct {
		name  string
		taken bool
		left  int
	}{{"taken over", true, 0}, {"slot is busy", false, 1}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lost := &source{frames: script(begin(20), outbox, insert(1, order("1", "a")), commit(20, 28)), fail: errors.New("EOF"), pace: time.Millisecond}
				busy := &source{refuse: &wal.SlotActiveError{PID: 7, Err: errors.New("slot is active")}}
				b := rig(t, nil, lost, busy)
				b.run(t)
				b.store.failWith(errors.New("connection reset")) // the event's ack can't be stored
				time.Sleep(time.Minute)
				b.store.failWith(nil)
				b.store.lose(c.taken)
				time.Sleep(standbyEvery + time.Second)
				synctest.Wait()
				b.endLeaving(t, c.left)
			})
		})
	}
}
