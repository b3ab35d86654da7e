package wal

import (
	"context"
	"fmt"
	"strings"
)

// Versions of Postgres whose catalog or grammar we use where it is there.
const (
	versionSlotOptions   = 150000 // CREATE_REPLICATION_SLOT takes a list of options
	versionFailoverSlots = 170000 // failover, synced, invalidation_reason
)

// SlotInfo is a slot as pg_replication_slots shows it. Where a column is NULL, or the server's
// version doesn't have it, its field is zero.
type SlotInfo struct {
	Name         string
	Plugin       string
	Type         string // logical or physical
	Database     string
	Temporary    bool
	TwoPhase     bool
	Active       bool
	ActivePID    int32
	Restart      LSN // the server keeps the log from here on
	Confirmed    LSN // transactions whose commit record lies before it are not sent again
	WALStatus    string
	Invalidation string // invalidation_reason, 17+
	Failover     bool   // 17+
	Synced       bool   // 17+
}

// Lost tells whether the slot has been invalidated, so that nothing can be read through it any
// more.
func (i *SlotInfo) Lost() bool { return i.WALStatus == "lost" || i.Invalidation != "" }

// Slot reads a slot; nil where there is none of that name.
func (s *Stream) Slot(ctx context.Context, name string) (*SlotInfo, error) {
	columns := "slot_name, plugin, slot_type, database, temporary, two_phase, active, active_pid, restart_lsn, confirmed_flush_lsn, wal_status"
	if s.system.FailoverSlots() {
		columns += ", invalidation_reason, failover, synced"
	}
	rows, err := s.Query(ctx, "SELECT "+columns+" FROM pg_catalog.pg_replication_slots WHERE slot_name = "+quoteLiteral(name))
	if err != nil {
		return nil, fmt.Errorf("read replication slot %q: %w", name, err)
	}
	if len(rows) == 0 {
		return nil, nil
	}
	f := fields{row: rows[0]}
	info := &SlotInfo{
		Name: f.text(0), Plugin: f.text(1), Type: f.text(2), Database: f.text(3),
		Temporary: f.bool(4), TwoPhase: f.bool(5), Active: f.bool(6), ActivePID: int32(f.number(7)),
		Restart: f.lsn(8), Confirmed: f.lsn(9), WALStatus: f.text(10),
	}
	if s.system.FailoverSlots() {
		info.Invalidation, info.Failover, info.Synced = f.text(11), f.bool(12), f.bool(13)
	}
	if f.err != nil {
		return nil, fmt.Errorf("read replication slot %q: %w", name, f.err)
	}
	s.named(info.Confirmed)
	return info, nil
}

// SlotOptions are the choices that a new slot has.
type SlotOptions struct {
	// Failover has the slot synchronised to standbys. Servers before 17 can't, and refuse.
	Failover bool
}

// SlotCreated is the answer to CreateSlot.
type SlotCreated struct {
	// Consistent is where the slot begins: it streams the transactions that the snapshot
	// doesn't see.
	Consistent LSN
	// Snapshot can be imported by another connection (SET TRANSACTION SNAPSHOT) until the next
	// command on this one, or its end.
	Snapshot string
}

// CreateSlot makes a permanent pgoutput slot. It waits for the transactions that are running.
func (s *Stream) CreateSlot(ctx context.Context, name string, opt SlotOptions) (SlotCreated, error) {
	if opt.Failover && !s.system.FailoverSlots() {
		return SlotCreated{}, fmt.Errorf("create replication slot %q: failover slots need Postgres 17, and this server is %d", name, s.system.Version/10000)
	}
	cmd := "CREATE_REPLICATION_SLOT " + quoteIdentifier(name) + " LOGICAL pgoutput "
	if s.system.Version < versionSlotOptions {
		cmd += "EXPORT_SNAPSHOT"
	} else {
		options := []string{"SNAPSHOT 'export'"}
		if opt.Failover {
			options = append(options, "FAILOVER true")
		}
		cmd += "(" + strings.Join(options, ", ") + ")"
	}
	rows, err := s.Query(ctx, cmd)
	if err != nil {
		return SlotCreated{}, fmt.Errorf("create replication slot %q: %w", name, err)
	}
	f := fields{row: only(rows, 3)}
	made := SlotCreated{Consistent: f.lsn(1), Snapshot: f.text(2)}
	if f.err != nil {
		return SlotCreated{}, fmt.Errorf("create replication slot %q: %w", name, f.err)
	}
	s.named(made.Consistent)
	return made, nil
}
