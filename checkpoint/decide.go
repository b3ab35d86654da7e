package checkpoint

import (
	"errors"
	"fmt"

	"github.com/cdc-relay/cdc-relay/wal"
)

// Action says how a session begins.
type Action uint8

// The actions, and what is to be done before START. What writes the row fails with
// ErrChanged when another relay was faster: then decide again.
const (
	// FirstStart: Store.Create, then make the slot, then Store.GoLive at its position.
	FirstStart Action = iota + 1
	// CreateSlot: a first start was cut off before the slot existed. As FirstStart.
	CreateSlot
	// GoLive: a first start was cut off after the slot existed: Store.GoLive at From.
	GoLive
	// Adopt: a slot that somebody else has used so far: Store.Adopt at From.
	Adopt
	// Resume: nothing.
	Resume
	// Failover: a standby was promoted: Store.Failover to From.
	Failover
)

func (a Action) String() string {
	switch a {
	case FirstStart:
		return "first start"
	case CreateSlot:
		return "go on with the first start"
	case GoLive:
		return "finish the first start"
	case Adopt:
		return "adopt the slot"
	case Resume:
		return "resume"
	case Failover:
		return "follow a failover"
	default:
		return fmt.Sprintf("action %d", uint8(a))
	}
}

// Start is where streaming may begin.
type Start struct {
	Action Action
	// From is what START_REPLICATION gets. It is 0 for FirstStart and CreateSlot, where the
	// new slot says it.
	From wal.LSN
	// Presumed is not 0 where the slot is ahead of the row after a failover: what was committed
	// from Presumed to From counts as published because the slot is confirmed past it and nothing
	// else says so. It is that way when the last write of the row didn't reach the standby. When
	// somebody moved the slot by hand it looks the same, so the range is worth a warning.
	Presumed wal.LSN
}

// ErrSlotBeingMade says that another session is making the slot at this moment. Ask again later.
var ErrSlotBeingMade = errors.New("the slot is being made by another session")

// RefuseError says that no start is safe.
type RefuseError struct {
	Name   string // of the slot
	Row    *Row
	Slot   *Slot
	Server Server
	Reason string
	Remedy string
}

func (e *RefuseError) Error() string {
	return fmt.Sprintf("start on slot %q: %s (%s; %s; %s)", e.Name, e.Reason, e.Row, e.Slot, e.Server)
}

// Hint is what an operator can do.
func (e *RefuseError) Hint() string { return e.Remedy }

// ExitCode is that of a slot or system that is lost.
func (e *RefuseError) ExitCode() int { return 4 }

// Remedies. Each leaves it to a person to judge what lies in the gap.
const (
	remedyGap = "find out which events are missing in Kafka and republish them from the table; then forget the stored " +
		"position (delete the slot's row from the checkpoint table) and start anew"
	remedySlot   = "name another slot (slot.name), or drop this one if nothing needs it"
	remedyServer = "check that the connection leads to the right server; if this one takes over for good: " + remedyGap
)

// Decide says where streaming may start, from what is stored (nil where there is no row), the
// slot (nil where there is none) and the server. Postgres accepts a wrong position without an
// error and skips what lies before it, so nothing is streamed but from where Decide says.
//
// Read them in this order, the slot first and the server last, and again for every connection:
// a relay that is at work meanwhile raises the row before the slot, and never past the server, so
// this order can't show a slot ahead of its row that isn't.
func Decide(name string, row *Row, slot *Slot, srv Server) (Start, error) {
	d := decision{RefuseError{Name: name, Row: row, Slot: slot, Server: srv}}
	if row != nil && row.Slot != name || slot != nil && slot.Name != name {
		return d.refuse("row or slot has another name", remedySlot)
	}
	if row == nil {
		return d.unknown()
	}
	switch row.State {
	case Creating:
		return d.creating()
	case Live:
		return d.live()
	case Retired:
		if slot == nil {
			return Start{Action: FirstStart}, nil
		}
		return d.refuse("the slot was retired, yet there is one", remedySlot)
	default:
		return d.refuse(fmt.Sprintf("the row's state %q is unknown", row.State), "use the version of cdc-relay that wrote it")
	}
}

type decision struct{ RefuseError }

func (d decision) refuse(reason, remedy string) (Start, error) {
	d.Reason, d.Remedy = reason, remedy
	return Start{}, &d.RefuseError
}

// unknown: nothing is stored.
func (d decision) unknown() (Start, error) {
	if d.Slot == nil {
		return Start{Action: FirstStart}, nil
	}
	return d.fromSlot(Adopt)
}

// fromSlot starts at the slot's own position.
func (d decision) fromSlot(action Action) (Start, error) {
	if d.Slot.Confirmed == 0 && d.Slot.ActivePID != 0 {
		return Start{}, fmt.Errorf("start on slot %q: %w (pid %d)", d.Name, ErrSlotBeingMade, d.Slot.ActivePID)
	}
	if fault := d.Slot.fault(d.Server); fault != "" {
		return d.refuse("the slot can't be used: "+fault, remedySlot)
	}
	return Start{Action: action, From: d.Slot.Confirmed}, nil
}

func (d decision) creating() (Start, error) {
	const remedy = "nothing has been published from this slot yet: delete its row from the checkpoint table and start anew"
	if d.Row.SystemID != d.Server.SystemID {
		return d.refuse("the first start began on another system", remedy)
	}
	if d.Slot != nil {
		return d.fromSlot(GoLive)
	}
	if d.Row.Timeline != d.Server.Timeline {
		return d.refuse("the first start began on another timeline", remedy)
	}
	return Start{Action: CreateSlot}, nil
}

func (d decision) live() (Start, error) {
	stored := d.Row.Stored
	if d.Row.SystemID != d.Server.SystemID {
		return d.refuse("the position was stored on another system, where the same LSN means something else", remedyServer)
	}
	if d.Slot == nil {
		return d.refuse(fmt.Sprintf("the slot is gone; events committed after %s may be missing", stored), remedyGap)
	}
	if d.Slot.lost() {
		return d.refuse(fmt.Sprintf("the slot is lost; events committed after %s may be missing", stored), remedyGap)
	}
	if fault := d.Slot.fault(d.Server); fault != "" {
		return d.refuse("the slot can't be used: "+fault, remedySlot)
	}
	if stored > d.Server.Flushed {
		return d.refuse("the server hasn't reached the stored position: it was restored from a backup, or replaced by one that was behind", remedyServer)
	}
	if d.Row.Timeline == d.Server.Timeline {
		return d.sameTimeline()
	}
	return d.newTimeline()
}

func (d decision) sameTimeline() (Start, error) {
	stored, confirmed := d.Row.Stored, d.Slot.Confirmed
	if confirmed > stored {
		return d.refuse(fmt.Sprintf("the slot was moved or made again: events committed from %s to %s may be missing", stored, confirmed), remedyGap)
	}
	return Start{Action: Resume, From: stored}, nil
}

func (d decision) newTimeline() (Start, error) {
	stored, confirmed := d.Row.Stored, d.Slot.Confirmed
	if d.Server.Timeline < d.Row.Timeline {
		return d.refuse("the server is on an older timeline than the stored position: an old primary, or one restored from a backup", remedyServer)
	}
	end, ancestor := d.Server.end(d.Row.Timeline)
	if !ancestor {
		return d.refuse("the server's timeline doesn't descend from that of the stored position", remedyServer)
	}
	if stored > end {
		return d.refuse(fmt.Sprintf("the timeline of the stored position ended at %s, before it: what the old server committed "+
			"from there is lost, and what the new one did may be missing", end), remedyGap)
	}
	if confirmed > end {
		return d.refuse(fmt.Sprintf("the slot was made or moved after the promotion at %s: events committed from %s to %s may be missing", end, stored, confirmed), remedyGap)
	}
	// The slot may be ahead of the row here: the standby gets it by another way. The relay never
	// confirmed it past what the old server's row held.
	if confirmed > stored {
		return Start{Action: Failover, From: confirmed, Presumed: stored}, nil
	}
	return Start{Action: Failover, From: stored}, nil
}
