package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/rs/zerolog"

	"github.com/cdc-relay/cdc-relay/checkpoint"
	"github.com/cdc-relay/cdc-relay/wal"
)

// errCut ends a start that is killed.
var errCut = errors.New("killed")

// primary is a server with one slot and the relay's own tables, as much of it as a start asks for.
// It stands for both connections of a start.
type primary struct {
	sys  wal.System
	slot *wal.SlotInfo
	row  *checkpoint.Row

	asked []string        // what was done, in order
	cut   int             // the step that the relay is killed at, counted from 1; 0: none
	late  bool            // it is killed after that step instead of before it
	after func(string)    // what others do after a step, where not nil
	made  wal.LSN         // where a new slot begins
	exist *pgconn.PgError // the answer to CREATE_REPLICATION_SLOT, where not nil
}

func newPrimary() *primary {
	return &primary{sys: wal.System{ID: "sys", Timeline: 1, Flushed: 1000, Database: "db", Version: 170000}, made: 500}
}

// do is one step: killed before it, or it happens and the relay is killed before it learns so.
func (p *primary) do(what string, step func() error) error {
	p.asked = append(p.asked, what)
	cut := len(p.asked) == p.cut
	if cut && !p.late {
		return errCut
	}
	err := step()
	if p.after != nil {
		p.after(what)
	}
	if cut {
		return errCut
	}
	return err
}

func (p *primary) System() wal.System { return p.sys }

func (p *primary) Slot(context.Context, string) (info *wal.SlotInfo, err error) {
	err = p.do("read slot", func() error {
		if p.slot != nil {
			copied := *p.slot
			info = &copied
		}
		return nil
	})
	return info, err
}

func (p *primary) CreateSlot(_ context.Context, name string, _ wal.SlotOptions) (made wal.SlotCreated, err error) {
	err = p.do("create slot", func() error {
		if p.slot != nil && p.exist == nil {
			p.exist = &pgconn.PgError{Code: "42710", Message: `replication slot "s" already exists`}
		}
		if p.exist != nil {
			return fmt.Errorf("create replication slot %q: %w", name, p.exist)
		}
		p.slot = slotInfo(p.made)
		made.Consistent = p.made
		return nil
	})
	return made, err
}

func (p *primary) Identify(context.Context) (sys wal.System, err error) {
	err = p.do("identify", func() error { sys = p.sys; return nil })
	return sys, err
}

func (p *primary) TimelineHistory(context.Context, int32) ([]wal.TimelineSwitch, error) {
	if p.sys.Timeline == 2 {
		return []wal.TimelineSwitch{{Timeline: 1, Switch: 600}}, nil
	}
	return nil, nil
}

func (p *primary) Read(context.Context) (row *checkpoint.Row, err error) {
	err = p.do("read row", func() error {
		if p.row != nil {
			copied := *p.row
			row = &copied
		}
		return nil
	})
	return row, err
}

func (p *primary) Create(_ context.Context, srv checkpoint.Server, publication string) error {
	return p.do("row creating", func() error {
		if p.row != nil && p.row.State == checkpoint.Live {
			return checkpoint.ErrChanged
		}
		p.row = &checkpoint.Row{Slot: "s", State: checkpoint.Creating, SystemID: srv.SystemID, Timeline: srv.Timeline, Publication: publication}
		return nil
	})
}

func (p *primary) GoLive(_ context.Context, _ checkpoint.Server, stored wal.LSN) error {
	return p.do("row live", func() error {
		if p.row == nil || p.row.State != checkpoint.Creating {
			return checkpoint.ErrChanged
		}
		p.row.State, p.row.Stored = checkpoint.Live, stored
		return nil
	})
}

func (p *primary) Adopt(_ context.Context, srv checkpoint.Server, stored wal.LSN, publication string) error {
	return p.do("adopt", func() error { p.row = liveRow(stored, srv.Timeline, publication); return nil })
}

func (p *primary) Failover(_ context.Context, from *checkpoint.Row, srv checkpoint.Server, stored wal.LSN) error {
	return p.do("failover", func() error { p.row = liveRow(stored, srv.Timeline, from.Publication); return nil })
}

func (p *primary) Lineages(_ context.Context, srv checkpoint.Server) (wal.Lineages, error) {
	if srv.Timeline == 2 {
		return wal.Lineages{{No: 1}, {No: 2, From: 600}}, nil
	}
	return wal.Lineages{{No: 1}}, nil
}

func slotInfo(confirmed wal.LSN) *wal.SlotInfo {
	return &wal.SlotInfo{Name: "s", Plugin: "pgoutput", Database: "db", Confirmed: confirmed, WALStatus: "reserved"}
}

func liveRow(stored wal.LSN, timeline int32, publication string) *checkpoint.Row {
	return &checkpoint.Row{Slot: "s", State: checkpoint.Live, SystemID: "sys", Timeline: timeline, Stored: stored, Publication: publication}
}

// start decides as a relay does that connects to p; log is what it warns of.
func (p *primary) start(t *testing.T) (origin Origin, log string, err error) {
	t.Helper()
	p.asked = nil
	var said bytes.Buffer
	o := &Opener{Rows: p, Slot: "s", Publication: "p", Outbox: &Outbox{}, Log: zerolog.New(&said).Level(zerolog.WarnLevel)}
	origin, err = o.decide(t.Context(), p)
	return origin, said.String(), err
}

// TestStartReadsTheSlotThenTheRowThenTheServer: another relay is at work meanwhile. With each step of
// this one the server writes, the other relay stores and then confirms. In any other order of reading,
// a healthy slot looks moved, or the row ahead of the server.
func TestStartReadsTheSlotThenTheRowThenTheServer(t *testing.T) {
	p := newPrimary()
	p.slot, p.row = slotInfo(1000), liveRow(1000, 1, "p")
	p.after = func(string) {
		p.sys.Flushed += 100
		p.row.Stored, p.slot.Confirmed = p.sys.Flushed, p.sys.Flushed
	}
	origin, _, err := p.start(t)
	if err != nil {
		t.Fatalf("a slot that another relay works on is refused: %v", err)
	}
	if origin.Start != 1100 {
		t.Errorf("starts at %s, want the row as it was after the slot was read: 0/44C", origin.Start)
	}
}

// TestFirstStartSurvivesAKillAtEachStep: wherever a first start is killed, before or after a step took
// effect, the next one goes on, and begins where the one slot was made.
func TestFirstStartSurvivesAKillAtEachStep(t *testing.T) {
	for _, late := range []bool{false, true} {
		for k := 1; ; k++ {
			p := newPrimary()
			p.cut, p.late = k, late
			_, _, err := p.start(t)
			if err == nil {
				break // it had fewer steps than k
			}
			if !errors.Is(err, errCut) {
				t.Fatalf("first start: %v", err)
			}
			if p.slot != nil && p.row == nil {
				t.Errorf("killed at step %d (after it: %v) there is a slot that no row knows", k, late)
			}
			if p.row != nil && p.row.State == checkpoint.Live && p.slot == nil {
				t.Errorf("killed at step %d (after it: %v) the row is live without a slot", k, late)
			}
			killedAt := p.asked
			p.cut, p.made = 0, 900
			want := wal.LSN(900)
			if p.slot != nil {
				want = 500 // the slot that is there holds its WAL from there on
			}
			origin, _, err := p.start(t)
			if err != nil || origin.Start != want || p.row.State != checkpoint.Live || p.row.Stored != want {
				t.Errorf("killed at %q (after it: %v), then started at %s with the row %v, %v; want a start at %s",
					killedAt, late, origin.Start, p.row, err, want)
			}
		}
	}
}

// TestFirstStartBesideAnother: two relays start together. The second one must find its way to standby,
// whatever it sees of what the first one does.
func TestFirstStartBesideAnother(t *testing.T) {
	t.Run("the slot exists by now", func(t *testing.T) {
		p := newPrimary()
		p.exist = &pgconn.PgError{Code: "42710", Message: `replication slot "s" already exists`}
		_, _, err := p.start(t)
		if !errors.Is(err, checkpoint.ErrSlotBeingMade) || final(err) != nil || !standby(err) {
			t.Errorf("got %v, which is final: %v, standby: %v; want one to wait for", err, final(err), standby(err))
		}
	})
	t.Run("it is being made", func(t *testing.T) {
		p := newPrimary()
		p.slot, p.row = slotInfo(0), liveRow(0, 1, "p")
		p.slot.ActivePID, p.slot.WALStatus, p.row.State = 7, "", checkpoint.Creating
		_, _, err := p.start(t)
		if !errors.Is(err, checkpoint.ErrSlotBeingMade) || final(err) != nil || !standby(err) {
			t.Errorf("got %v, which is final: %v, standby: %v; want one to wait for", err, final(err), standby(err))
		}
	})
	// The first relay is through between the two looks of the second one.
	for name, slot := range map[string]*wal.SlotInfo{"it was made between the looks": nil, "it was ready between the looks": slotInfo(0)} {
		t.Run(name, func(t *testing.T) {
			p := newPrimary()
			if p.slot = slot; slot != nil {
				slot.ActivePID, slot.WALStatus = 7, ""
			}
			p.after = func(what string) {
				if what == "read slot" {
					p.slot, p.row, p.after = slotInfo(500), liveRow(500, 1, "p"), nil
				}
			}
			origin, _, err := p.start(t)
			if err != nil || origin.Start != 500 {
				t.Errorf("starts at %s, %v; want 0/1F4: the slot is there", origin.Start, err)
			}
		})
	}
	// A slot that was really dropped is still told apart.
	p := newPrimary()
	p.row = liveRow(500, 1, "p")
	_, _, err := p.start(t)
	var refused *checkpoint.RefuseError
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "the slot is gone") {
		t.Errorf("got %v, want a refusal because the slot is gone", err)
	}
}

// TestOtherPublicationIsRefused: before anything is written.
func TestOtherPublicationIsRefused(t *testing.T) {
	p := newPrimary()
	p.slot, p.row = slotInfo(100), liveRow(200, 1, "another")
	_, _, err := p.start(t)
	var other *PublicationError
	if !errors.As(err, &other) || other.ExitCode() != 2 || !strings.Contains(err.Error(), `"another"`) {
		t.Errorf("got %v, want a PublicationError that names the publication of the position", err)
	}
	if slices.ContainsFunc(p.asked, func(s string) bool { return !strings.HasPrefix(s, "read ") }) {
		t.Errorf("did %q", p.asked)
	}
}

// TestStartSaysWhatItPresumes: what nobody knows to be published, and counts as such, is said.
func TestStartSaysWhatItPresumes(t *testing.T) {
	p := newPrimary()
	p.slot = slotInfo(300)
	if origin, log, err := p.start(t); err != nil || origin.Start != 300 || !strings.Contains(log, "taking it over") {
		t.Errorf("a slot without a row: starts at %s, %v, and says %s", origin.Start, err, log)
	}
	p = newPrimary()
	p.slot, p.row, p.sys.Timeline = slotInfo(300), liveRow(200, 1, "p"), 2
	origin, log, err := p.start(t)
	if err != nil || origin.Start != 300 || !strings.Contains(log, `"from":"0/C8","to":"0/12C"`) {
		t.Errorf("a slot ahead of its row after a failover: starts at %s, %v, and says %s", origin.Start, err, log)
	}
}

// TestLineagesAreReadForEachSession: a relay that is up while a standby is promoted places what the new
// server commits in the new lineage, as one that is started afterwards would.
func TestLineagesAreReadForEachSession(t *testing.T) {
	p := newPrimary()
	p.slot, p.row = slotInfo(500), liveRow(500, 1, "p")
	o := &Opener{Rows: p, Slot: "s", Publication: "p", Outbox: &Outbox{}, Log: zerolog.Nop()}
	if origin, err := o.decide(t.Context(), p); err != nil || origin.Lineages.At(700) != 1 {
		t.Fatalf("before the promotion: lineages %v, error %v", origin.Lineages, err)
	}
	p.sys.Timeline = 2
	origin, err := o.decide(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if before, after := origin.Lineages.At(599), origin.Lineages.At(700); before != 1 || after != 2 {
		t.Errorf("after the promotion at 0/258, commits before it are of lineage %d and behind it of %d, want 1 and 2", before, after)
	}
}
