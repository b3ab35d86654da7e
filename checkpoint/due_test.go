package checkpoint

import (
	"testing"

	"github.com/cdc-relay/cdc-relay/wal"
)

func TestDueToSave(t *testing.T) {
	for _, c := range []struct {
		name              string
		stored, confirmed wal.LSN
		events, want      bool
	}{
		{"nothing moved", 100, 100, false, false},
		{"never backwards", 100, 90, true, false},
		{"never backwards by far", 1 << 30, 1, false, false},
		{"one event", 100, 101, true, true},
		{"an event, but its transaction isn't confirmed", 100, 100, true, false},
		{"our own write", 100, 100 + 400, false, false},
		{"our own write after a checkpoint", 100, 100 + 8300, false, false},
		{"just below", 100, 100 + 256<<10 - 1, false, false},
		{"other work in the database", 100, 100 + 256<<10, false, true},
		{"from nothing", 0, 1 << 40, false, true},
	} {
		if got := DueToSave(c.stored, c.confirmed, c.events); got != c.want {
			t.Errorf("%s: due is %v, want %v", c.name, got, c.want)
		}
	}
}

// TestDueToSaveIdle plays an idle minute after some events: the server moves by what our own
// writes cost, and by a record of its running transactions every 15 s.
func TestDueToSaveIdle(t *testing.T) {
	const writeCost = 8300 // with a full page image, the dearest
	tr := NewTracker(0x1000, Limits{})
	ticket, _ := tr.Add(100)
	tr.Seal(0x2000)
	tr.Ack(ticket, 1, 100)

	end, stored, storedEvents := wal.LSN(0x2000), wal.LSN(0x1000), uint64(0)
	var writes []int
	for second := range 600 {
		if second%15 == 0 {
			end += 56
		}
		tr.Idle(end)
		confirmed, events := tr.Progress()
		if DueToSave(stored, confirmed, events > storedEvents) {
			stored, storedEvents = confirmed, events
			writes = append(writes, second)
			end += writeCost
		}
	}
	if len(writes) != 1 || writes[0] != 0 {
		t.Errorf("writes at the seconds %v of an idle time, want only the first for the event", writes)
	}
}

// TestDueToSaveBusyNeighbour: other tables write 1 MiB/s, the outbox is idle. The position
// follows within a second, so that no WAL is pinned.
func TestDueToSaveBusyNeighbour(t *testing.T) {
	tr := NewTracker(0, Limits{})
	stored := wal.LSN(0)
	for second := 1; second <= 60; second++ {
		end := wal.LSN(second) << 20
		tr.Idle(end)
		confirmed, events := tr.Progress()
		if DueToSave(stored, confirmed, events > 0) {
			stored = confirmed
		}
		if stored != end {
			t.Fatalf("stored %s after second %d, the server is at %s", stored, second, end)
		}
	}
}
