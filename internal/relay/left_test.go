package relay

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cdc-relay/cdc-relay/wal"
)

// What a lost session published past the stored position comes again, so a stop before the next
// session has read that far is not a clean one.
func TestStopSaysWhatALostSessionLeft(t *testing.T) {
	one := script(begin(20), outbox, insert(1, order("1", "a")), commit(20, 28))
	two := script(begin(30), outbox, insert(1, order("2", "a")), commit(30, 38))
	three := script(begin(40), outbox, insert(1, order("3", "a")), commit(40, 48))
	for name, c := range map[string]struct {
		again []wal.Frame // what the second session reads before the stop
		left  int
	}{
		"nothing is read again": {nil, 3},
		"a part is read again":  {script(one, two), 1},
		"all is read again":     {script(one, two, three), 0},
		"and more":              {script(one, two, three, begin(50), insert(1, order("4", "a")), commit(50, 58)), 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lost := &source{frames: script(one, two, three), fail: errors.New("connection reset"), pace: time.Millisecond}
				b := rig(t, nil, lost, &source{frames: c.again})
				b.store.failWith(errors.New("disk full"))
				b.run(t)
				time.Sleep(50 * time.Millisecond) // the first session is over, the second isn't there yet
				b.store.failWith(nil)
				time.Sleep(5 * time.Second)
				if b.origins.opened() != 2 || b.store.at() != 10 && c.again == nil {
					t.Fatalf("%d sessions, stored %s", b.origins.opened(), b.store.at())
				}
				b.endLeaving(t, c.left)
			})
		})
	}
}

// A slot that was another relay's for a while may come back without that one having published
// anything.
func TestStopSaysWhatIsLeftOfASlotThatCameBack(t *testing.T) {
	for name, c := range map[string]struct {
		back bool
		left int
	}{"it is the other relay's": {false, 0}, "it came back": {true, 1}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := rig(t, nil, &source{frames: script(begin(20), outbox, insert(1, order("1", "a")), commit(20, 28))}, &source{})
				b.run(t)
				b.store.lose(true)
				time.Sleep(2 * time.Second)
				b.store.lose(!c.back)
				time.Sleep(4 * time.Second)
				b.endLeaving(t, c.left)
			})
		})
	}
}

// takeless has a row that can be written, and that nobody gets an answer about when it is taken.
type takeless struct {
	*store
	silent atomic.Bool
}

func (s *takeless) Take(ctx context.Context) (wal.LSN, error) {
	if s.silent.Load() {
		return 0, errors.New("connection reset")
	}
	return s.store.Take(ctx)
}

// Once START has succeeded the slot is this relay's again, whether or not it hears that it owns the row.
func TestStopSaysWhatIsLeftWhereTheRowDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := rig(t, nil, &source{frames: script(begin(20), outbox, insert(1, order("1", "a")), commit(20, 28))}, &source{})
		row := &takeless{store: b.store}
		b.Relay.cfg.Store = row
		b.run(t)
		b.store.lose(true)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		row.silent.Store(true)
		b.store.lose(false)
		time.Sleep(4 * time.Second)
		synctest.Wait()
		b.endLeaving(t, 1)
	})
}
