package checkpoint

import (
	"crypto/rand"
	"fmt"
	"time"

	"github.com/cdc-relay/cdc-relay/wal"
)

// State is where the life of a slot's row is.
type State string

// The states of a row.
const (
	// Creating: the first start is under way. Nothing has been published.
	Creating State = "creating"
	// Live: everything before the stored position has been published.
	Live State = "live"
	// Retired: everything has been published and the slot was given up on purpose.
	Retired State = "retired"
)

// Owner is the token of one relay process. The row of a slot holds that of the relay which may
// write it.
type Owner [16]byte

// NewOwner makes a token that no other process has: a random UUID.
func NewOwner() Owner {
	var o Owner
	_, _ = rand.Read(o[:]) // never fails, see crypto/rand
	o[6] = o[6]&0x0F | 0x40
	o[8] = o[8]&0x3F | 0x80
	return o
}

func (o Owner) String() string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", o[:4], o[4:6], o[6:8], o[8:10], o[10:])
}

// Row is what is stored about a slot.
type Row struct {
	Slot        string
	State       State
	SystemID    string
	Timeline    int32
	Stored      wal.LSN // meaningless while creating
	Owner       Owner   // zero when nobody has taken the slot yet
	Publication string
	UpdatedAt   time.Time // by the server's clock
}

func (r *Row) String() string {
	if r == nil {
		return "row: none"
	}
	return fmt.Sprintf("row: state %s, stored %s, system %s, timeline %d", r.State, r.Stored, r.SystemID, r.Timeline)
}

// Slot is a replication slot as pg_replication_slots shows it.
type Slot struct {
	Name      string
	Plugin    string // empty for a physical slot
	Database  string
	Confirmed wal.LSN // confirmed_flush_lsn; 0 where it is NULL
	WALStatus string  // wal_status; empty where it is NULL
	// Invalid is the reason why the slot was invalidated, where the server tells one (17 and up).
	Invalid   string
	Temporary bool
	TwoPhase  bool
	ActivePID int32 // 0 where nobody uses it
}

func (s *Slot) String() string {
	if s == nil {
		return "slot: none"
	}
	out := fmt.Sprintf("slot: confirmed %s, plugin %q, database %q, wal_status %q", s.Confirmed, s.Plugin, s.Database, s.WALStatus)
	for _, f := range []struct {
		is   bool
		text string
	}{
		{s.Invalid != "", "invalidated: " + s.Invalid},
		{s.Temporary, "temporary"},
		{s.TwoPhase, "two_phase"},
		{s.ActivePID != 0, fmt.Sprintf("active for pid %d", s.ActivePID)},
	} {
		if f.is {
			out += ", " + f.text
		}
	}
	return out
}

// fault says why the slot can't be used, and is empty for a healthy one.
func (s *Slot) fault(srv Server) string {
	switch {
	case s.Plugin == "":
		return "it is a physical slot"
	case s.Plugin != "pgoutput":
		return fmt.Sprintf("its plugin is %q, not pgoutput", s.Plugin)
	case s.Database != srv.Database:
		return fmt.Sprintf("it belongs to the database %q, not %q", s.Database, srv.Database)
	case s.Temporary:
		return "it is temporary and vanishes with its session"
	case s.TwoPhase:
		return "it was made with two_phase, which sends transactions before they are committed"
	case s.Invalid != "":
		return "it was invalidated: " + s.Invalid
	}
	switch s.WALStatus {
	case "reserved", "extended", "unreserved":
	case "lost":
		return "the WAL it needs has been removed (wal_status lost)"
	default:
		return fmt.Sprintf("its wal_status is %q", s.WALStatus)
	}
	if s.Confirmed == 0 {
		return "it has no confirmed position"
	}
	if s.Confirmed > srv.Flushed {
		return fmt.Sprintf("it is confirmed up to %s, which the server at %s hasn't reached yet", s.Confirmed, srv.Flushed)
	}
	return ""
}

// lost: the slot is ours by its kind, but what it needs is gone.
func (s *Slot) lost() bool { return s != nil && (s.WALStatus == "lost" || s.Invalid != "") }

// Switch is the end of a timeline: the first position that belongs to the next one.
type Switch struct {
	Timeline int32
	End      wal.LSN
}

// Server is the Postgres that a relay is connected to.
type Server struct {
	SystemID string
	Timeline int32
	Flushed  wal.LSN // xlogpos of IDENTIFY_SYSTEM
	Database string
	History  []Switch // of the ancestors of Timeline, oldest first
}

func (s Server) String() string {
	return fmt.Sprintf("server: flushed %s, system %s, timeline %d, database %q", s.Flushed, s.SystemID, s.Timeline, s.Database)
}

// end is where an ancestor timeline ended.
func (s Server) end(timeline int32) (wal.LSN, bool) {
	for _, h := range s.History {
		if h.Timeline == timeline {
			return h.End, true
		}
	}
	return 0, false
}
