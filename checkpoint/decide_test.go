package checkpoint

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/cdc-relay/cdc-relay/wal"
)

func row(change func(*Row)) *Row {
	r := Row{Slot: "s", State: Live, SystemID: "sys", Timeline: 1, Stored: 200}
	if change != nil {
		change(&r)
	}
	return &r
}

func slotAt(confirmed wal.LSN, change func(*Slot)) *Slot {
	s := Slot{Name: "s", Plugin: "pgoutput", Database: "db", Confirmed: confirmed, WALStatus: "reserved"}
	if change != nil {
		change(&s)
	}
	return &s
}

func server(change func(*Server)) Server {
	s := Server{SystemID: "sys", Timeline: 1, Flushed: 1000, Database: "db"}
	if change != nil {
		change(&s)
	}
	return s
}

// promoted is the server after n promotions: timeline 1 ended at 500, 2 at 600, 3 at 700.
func promoted(n int32) Server {
	return server(func(s *Server) {
		s.Timeline = 1 + n
		for i := range n {
			s.History = append(s.History, Switch{1 + i, 500 + 100*wal.LSN(i)})
		}
	})
}

func creating(r *Row) { r.State, r.Stored = Creating, 0 }
func retired(r *Row)  { r.State = Retired }

// decideCases has each row of the table in the documentation of the package, and what lies next
// to it.
var decideCases = []struct {
	name   string
	row    *Row
	slot   *Slot
	srv    Server
	action Action
	from   wal.LSN
	reason string // of the refusal
}{
	{"nothing there", nil, nil, server(nil), FirstStart, 0, ""},
	{"adopt", nil, slotAt(300, nil), server(nil), Adopt, 300, ""},
	{"adopt at the server's end", nil, slotAt(1000, nil), server(nil), Adopt, 1000, ""},
	{"adopt what others moved past the end", nil, slotAt(1001, nil), server(nil), 0, 0, "hasn't reached"},
	{"adopt lost", nil, slotAt(300, func(s *Slot) { s.WALStatus = "lost" }), server(nil), 0, 0, "removed"},
	{"adopt invalidated", nil, slotAt(300, func(s *Slot) { s.Invalid = "idle_timeout" }), server(nil), 0, 0, "idle_timeout"},
	{"adopt unreserved", nil, slotAt(300, func(s *Slot) { s.WALStatus = "unreserved" }), server(nil), Adopt, 300, ""},
	{"adopt extended", nil, slotAt(300, func(s *Slot) { s.WALStatus = "extended" }), server(nil), Adopt, 300, ""},
	{"adopt unknown status", nil, slotAt(300, func(s *Slot) { s.WALStatus = "fine" }), server(nil), 0, 0, `wal_status is "fine"`},
	{"adopt without status", nil, slotAt(300, func(s *Slot) { s.WALStatus = "" }), server(nil), 0, 0, `wal_status is ""`},
	{"adopt other plugin", nil, slotAt(300, func(s *Slot) { s.Plugin = "wal2json" }), server(nil), 0, 0, "wal2json"},
	{"adopt physical", nil, slotAt(300, func(s *Slot) { s.Plugin = "" }), server(nil), 0, 0, "physical"},
	{"adopt other database", nil, slotAt(300, func(s *Slot) { s.Database = "other" }), server(nil), 0, 0, `"other"`},
	{"adopt two_phase", nil, slotAt(300, func(s *Slot) { s.TwoPhase = true }), server(nil), 0, 0, "two_phase"},
	{"adopt temporary", nil, slotAt(300, func(s *Slot) { s.Temporary = true }), server(nil), 0, 0, "temporary"},
	{"adopt without position", nil, slotAt(0, nil), server(nil), 0, 0, "no confirmed"},

	{"creating, no slot", row(creating), nil, server(nil), CreateSlot, 0, ""},
	{"creating, no slot, other system", row(creating), nil, server(func(s *Server) { s.SystemID = "x" }), 0, 0, "another system"},
	{"creating, no slot, newer timeline", row(creating), nil, promoted(1), 0, 0, "another timeline"},
	{"creating, slot", row(creating), slotAt(300, nil), server(nil), GoLive, 300, ""},
	{"creating, slot, newer timeline", row(creating), slotAt(300, nil), promoted(1), GoLive, 300, ""},
	{"creating, slot, other system", row(creating), slotAt(300, nil), server(func(s *Server) { s.SystemID = "x" }), 0, 0, "another system"},
	{"creating, slot lost", row(creating), slotAt(300, func(s *Slot) { s.WALStatus = "lost" }), server(nil), 0, 0, "removed"},

	{"resume", row(nil), slotAt(100, nil), server(nil), Resume, 200, ""},
	{"resume where the slot is", row(nil), slotAt(200, nil), server(nil), Resume, 200, ""},
	{"resume at the server's end", row(nil), slotAt(100, nil), server(func(s *Server) { s.Flushed = 200 }), Resume, 200, ""},
	{"row ahead of the server", row(nil), slotAt(100, nil), server(func(s *Server) { s.Flushed = 199 }), 0, 0, "restored"},
	{"slot moved", row(nil), slotAt(201, nil), server(nil), 0, 0, "from 0/C8 to 0/C9"},
	{"slot moved past the end", row(nil), slotAt(1001, nil), server(nil), 0, 0, "hasn't reached"},
	{"slot gone", row(nil), nil, server(nil), 0, 0, "after 0/C8"},
	{"slot gone, other timeline", row(nil), nil, promoted(1), 0, 0, "the slot is gone"},
	{"slot lost", row(nil), slotAt(100, func(s *Slot) { s.WALStatus = "lost" }), server(nil), 0, 0, "the slot is lost"},
	{"slot invalidated", row(nil), slotAt(100, func(s *Slot) { s.Invalid = "wal_removed" }), server(nil), 0, 0, "the slot is lost"},
	{"slot lost, newer timeline", row(nil), slotAt(100, func(s *Slot) { s.WALStatus = "lost" }), promoted(1), 0, 0, "the slot is lost"},
	{"slot of another database", row(nil), slotAt(100, func(s *Slot) { s.Database = "x" }), server(nil), 0, 0, `"x"`},
	{"slot temporary", row(nil), slotAt(100, func(s *Slot) { s.Temporary = true }), server(nil), 0, 0, "temporary"},
	{"slot being made under a live row", row(nil), slotAt(0, func(s *Slot) { s.ActivePID = 7 }), server(nil), 0, 0, "no confirmed"},
	{"other system", row(nil), slotAt(100, nil), server(func(s *Server) { s.SystemID = "x" }), 0, 0, "another system"},

	{"failover, row ahead", row(nil), slotAt(100, nil), promoted(1), Failover, 200, ""},
	{"failover, slot ahead", row(nil), slotAt(300, nil), promoted(1), Failover, 300, ""},
	{"failover, slot at the switch", row(nil), slotAt(500, nil), promoted(1), Failover, 500, ""},
	{"failover, slot past the switch", row(nil), slotAt(501, nil), promoted(1), 0, 0, "after the promotion"},
	{"failover, row at the switch", row(func(r *Row) { r.Stored = 500 }), slotAt(100, nil), promoted(1), Failover, 500, ""},
	{"failover, row past the switch", row(func(r *Row) { r.Stored = 501 }), slotAt(100, nil), promoted(1), 0, 0, "ended at 0/1F4"},
	{"two failovers", row(nil), slotAt(300, nil), promoted(2), Failover, 300, ""},
	{"two failovers, slot on the second", row(nil), slotAt(550, nil), promoted(2), 0, 0, "after the promotion at 0/1F4"},
	{"failover of the second timeline", row(func(r *Row) { r.Timeline, r.Stored = 2, 550 }), slotAt(510, nil), promoted(2), Failover, 550, ""},
	{"older timeline", row(func(r *Row) { r.Timeline = 2 }), slotAt(100, nil), server(nil), 0, 0, "older timeline"},
	{"fork", row(func(r *Row) { r.Timeline = 2 }), slotAt(100, nil), server(func(s *Server) {
		s.Timeline, s.History = 3, []Switch{{1, 500}}
	}), 0, 0, "descend"},

	{"retired", row(retired), nil, server(nil), FirstStart, 0, ""},
	{"retired, then upgraded", row(retired), nil, server(func(s *Server) { s.SystemID = "new" }), FirstStart, 0, ""},
	{"retired, but a slot", row(retired), slotAt(300, nil), server(nil), 0, 0, "retired"},
	{"unknown state", row(func(r *Row) { r.State = "paused" }), slotAt(100, nil), server(nil), 0, 0, `"paused"`},
	{"no state", row(func(r *Row) { r.State = "" }), nil, server(nil), 0, 0, `""`},
	{"row of another slot", row(func(r *Row) { r.Slot = "other" }), slotAt(100, nil), server(nil), 0, 0, "another name"},
	{"another slot", row(nil), slotAt(100, func(s *Slot) { s.Name = "other" }), server(nil), 0, 0, "another name"},
}

func TestDecide(t *testing.T) {
	for _, c := range decideCases {
		t.Run(c.name, func(t *testing.T) {
			got, err := Decide("s", c.row, c.slot, c.srv)
			if c.reason == "" {
				want := Start{Action: c.action, From: c.from}
				if c.action == Failover && c.from > c.row.Stored {
					want.Presumed = c.row.Stored
				}
				if err != nil || got != want {
					t.Fatalf("got %+v, %v; want %+v", got, err, want)
				}
				return
			}
			var refused *RefuseError
			if !errors.As(err, &refused) || got != (Start{}) {
				t.Fatalf("got %v, %v; want a refusal", got, err)
			}
			if !strings.Contains(refused.Reason, c.reason) {
				t.Errorf("reason %q, want one that says %q", refused.Reason, c.reason)
			}
			for _, part := range []string{`slot "s"`, c.row.String(), c.slot.String(), c.srv.String()} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q doesn't show %q", err, part)
				}
			}
			if refused.ExitCode() != 4 || refused.Hint() == "" {
				t.Errorf("exit code %d, hint %q", refused.ExitCode(), refused.Hint())
			}
		})
	}
}

// TestDecideSlotBeingMade: two relays start for the first time. While one makes the slot, it is
// there without a position; the other one must come again and not give up.
func TestDecideSlotBeingMade(t *testing.T) {
	slot := slotAt(0, func(s *Slot) { s.ActivePID, s.WALStatus = 7, "" })
	for _, r := range []*Row{nil, row(creating)} {
		_, err := Decide("s", r, slot, server(nil))
		var refused *RefuseError
		if !errors.Is(err, ErrSlotBeingMade) || errors.As(err, &refused) {
			t.Errorf("%s: %v", r, err)
		}
	}
}

// TestDecideAnything throws all combinations of a small world at Decide. What it allows must have
// every property that makes it safe; whatever lacks one must be refused.
func TestDecideAnything(t *testing.T) {
	lsn := func(t *rapid.T, label string) wal.LSN {
		return wal.LSN(rapid.SampledFrom([]int{0, 100, 199, 200, 201, 499, 500, 501, 599, 600, 601, 1000, 1001}).Draw(t, label))
	}
	pick := func(t *rapid.T, label string, of ...string) string { return rapid.SampledFrom(of).Draw(t, label) }
	rapid.Check(t, func(t *rapid.T) {
		var r *Row
		if rapid.IntRange(0, 9).Draw(t, "has row") > 0 {
			r = &Row{
				Slot: "s", State: State(pick(t, "state", "live", "live", "live", "creating", "retired", "x")),
				SystemID: pick(t, "row's system", "sys", "sys", "sys", "other"), Timeline: rapid.Int32Range(1, 4).Draw(t, "row's timeline"), Stored: lsn(t, "stored"),
			}
		}
		var s *Slot
		if rapid.IntRange(0, 9).Draw(t, "has slot") > 0 {
			s = slotAt(lsn(t, "confirmed"), nil)
			switch rapid.IntRange(0, 20).Draw(t, "slot's fault") {
			case 0:
				s.Plugin = pick(t, "plugin", "", "wal2json")
			case 1:
				s.Database = "other"
			case 2:
				s.WALStatus = pick(t, "status", "lost", "", "x")
			case 3:
				s.Temporary = true
			case 4:
				s.TwoPhase = true
			case 5:
				s.Invalid = "horizon"
			}
		}
		srv := promoted(int32(rapid.IntRange(0, 3).Draw(t, "promotions")))
		if rapid.IntRange(0, 9).Draw(t, "forked") == 0 && len(srv.History) > 0 {
			srv.History = slices.Delete(srv.History, len(srv.History)-1, len(srv.History))
		}
		got, err := Decide("s", r, s, srv)
		if err != nil {
			return
		}
		if why := unsafe(r, s, srv, got); why != "" {
			t.Fatalf("%v at %s: %s\n%s\n%s\n%s", got.Action, got.From, why, r, s, srv)
		}
	})
}

// unsafe says which property a start lacks.
func unsafe(r *Row, s *Slot, srv Server, got Start) string {
	if got.Action == FirstStart || got.Action == CreateSlot {
		switch {
		case s != nil:
			return "makes a slot that is there"
		case got.From != 0:
			return "knows a position that only the new slot has"
		case r != nil && r.State == Live:
			return "begins anew though events were published"
		}
		return ""
	}
	switch {
	case s == nil:
		return "streams from no slot"
	case s.Plugin != "pgoutput", s.Database != "db", s.Temporary, s.TwoPhase, s.Invalid != "":
		return "streams from an unusable slot"
	case s.WALStatus != "reserved":
		return "streams from a slot without WAL"
	case got.From == 0:
		return "lets Postgres choose the position"
	case got.From < s.Confirmed:
		return "Postgres would move the start up silently"
	case got.From > srv.Flushed:
		return "Postgres would skip what comes until there"
	case r == nil || r.State == Creating:
		if got.From != s.Confirmed {
			return "starts above the slot though nothing is stored"
		}
		if r != nil && r.SystemID != srv.SystemID {
			return "goes on with a first start on another system"
		}
		return ""
	case r.State != Live:
		return "streams in a state that has no stream"
	case r.SystemID != srv.SystemID:
		return "takes another system's position"
	case got.From < r.Stored:
		return "publishes again what is stored as published"
	case got.From > r.Stored && (r.Timeline == srv.Timeline || got.From != s.Confirmed || got.Presumed != r.Stored):
		return "starts above what was stored without a word"
	case got.From == r.Stored && got.Presumed != 0:
		return "presumes what is stored"
	case r.Timeline == srv.Timeline:
		return ""
	}
	end, ok := srv.end(r.Timeline)
	switch {
	case !ok || r.Timeline > srv.Timeline:
		return "takes a position of a timeline that isn't an ancestor"
	case got.From > end, r.Stored > end, s.Confirmed > end:
		return "starts past the switch of the timelines"
	}
	return ""
}

func TestOwner(t *testing.T) {
	a, b := NewOwner(), NewOwner()
	if a == b || a == (Owner{}) {
		t.Fatalf("owners %v and %v", a, b)
	}
	s := a.String()
	if len(s) != 36 || s[14] != '4' || !strings.Contains("89ab", s[19:20]) {
		t.Errorf("%q is no random UUID", s)
	}
}
