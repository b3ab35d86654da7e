package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/rs/zerolog"

	"github.com/cdc-relay/cdc-relay/checkpoint"
	"github.com/cdc-relay/cdc-relay/wal"
)

// Rows is what our own tables hold about the slot. *checkpoint.Store is the real one, whose methods
// say what each does.
type Rows interface {
	Read(ctx context.Context) (*checkpoint.Row, error)
	Create(ctx context.Context, srv checkpoint.Server, publication string) error
	GoLive(ctx context.Context, srv checkpoint.Server, stored wal.LSN) error
	Adopt(ctx context.Context, srv checkpoint.Server, stored wal.LSN, publication string) error
	Failover(ctx context.Context, from *checkpoint.Row, srv checkpoint.Server, stored wal.LSN) error
	Lineages(ctx context.Context, srv checkpoint.Server) (wal.Lineages, error)
}

// replication is what a start asks of the replication connection, a *wal.Stream.
type replication interface {
	System() wal.System
	Slot(ctx context.Context, name string) (*wal.SlotInfo, error)
	CreateSlot(ctx context.Context, name string, opt wal.SlotOptions) (wal.SlotCreated, error)
	Identify(ctx context.Context) (wal.System, error)
	TimelineHistory(ctx context.Context, timeline int32) ([]wal.TimelineSwitch, error)
}

// Opener is the Origins of a real Postgres.
type Opener struct {
	// Wal gives the settings of a connection, anew for each: a password may have changed.
	Wal         func(ctx context.Context) (wal.Config, error)
	Rows        Rows
	Slot        string
	Publication string
	Outbox      *Outbox
	Log         zerolog.Logger
}

// openTimeout bounds what happens between the connection and the START, except for the making of a
// slot, which waits for running transactions.
const openTimeout = 30 * time.Second

// Open implements Origins. It reads the slot, then the row, then asks where the server is: a relay
// that is at work meanwhile can't make a healthy slot look moved in this order.
func (o *Opener) Open(ctx context.Context) (Source, Origin, error) {
	sh, err := o.Outbox.Check(ctx)
	if err != nil {
		return nil, Origin{}, err
	}
	cfg, err := o.Wal(ctx)
	if err != nil {
		return nil, Origin{}, err
	}
	connecting, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	s, err := wal.Open(connecting, cfg)
	if err != nil {
		return nil, Origin{}, err
	}
	origin, err := o.decide(ctx, s)
	if err != nil {
		return nil, Origin{}, errors.Join(err, s.Close())
	}
	origin.Shape = sh
	return s, origin, nil
}

func (o *Opener) decide(ctx context.Context, s replication) (Origin, error) {
	asking, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	slot, row, err := o.look(asking, s)
	if err != nil {
		return Origin{}, err
	}
	if row != nil && row.Publication != o.Publication {
		return Origin{}, &PublicationError{Slot: o.Slot, Stored: row.Publication, Wanted: o.Publication}
	}
	srv, err := server(asking, s)
	if err != nil {
		return Origin{}, err
	}
	start, err := checkpoint.Decide(o.Slot, row, slotOf(slot), srv)
	if err != nil {
		return Origin{}, err
	}
	from, err := o.act(ctx, s, row, srv, start)
	if err != nil {
		return Origin{}, err
	}
	// Making a slot may have taken its time.
	reading, cancelRead := context.WithTimeout(ctx, openTimeout)
	defer cancelRead()
	lineages, err := o.Rows.Lineages(reading, srv)
	if err != nil {
		return Origin{}, err
	}
	o.Log.Info().Str("slot", o.Slot).Stringer("action", start.Action).Stringer("lsn", from).Msg("start decided")
	return Origin{Start: from, Lineages: lineages}, nil
}

// look reads the slot and then the row. A live row whose slot isn't there or isn't ready may be that of
// another relay that finished its first start between the two, so both are read again then. What is
// still so the second time is so.
func (o *Opener) look(ctx context.Context, s replication) (*wal.SlotInfo, *checkpoint.Row, error) {
	for again := false; ; again = true {
		slot, err := s.Slot(ctx, o.Slot)
		if err != nil {
			return nil, nil, err
		}
		row, err := o.Rows.Read(ctx)
		if err != nil {
			return nil, nil, err
		}
		ready := slot != nil && slot.Confirmed != 0
		if again || ready || row == nil || row.State != checkpoint.Live {
			return slot, row, nil
		}
	}
}

// act does what Decide asks for before the START, and returns where that is.
func (o *Opener) act(ctx context.Context, s replication, row *checkpoint.Row, srv checkpoint.Server, start checkpoint.Start) (wal.LSN, error) {
	switch start.Action {
	case checkpoint.FirstStart, checkpoint.CreateSlot:
		return o.create(ctx, s, srv)
	case checkpoint.GoLive:
		return start.From, o.Rows.GoLive(ctx, srv, start.From)
	case checkpoint.Adopt:
		o.Log.Warn().Str("slot", o.Slot).Stringer("lsn", start.From).
			Msg("the slot exists and nothing is stored about it: taking it over at its confirmed position")
		return start.From, o.Rows.Adopt(ctx, srv, start.From, o.Publication)
	case checkpoint.Failover:
		if start.Presumed != 0 {
			o.Log.Warn().Stringer("from", start.Presumed).Stringer("to", start.From).
				Msg("after the failover the slot is ahead of the stored position: what lies between counts as published")
		}
		return start.From, o.Rows.Failover(ctx, row, srv, start.From)
	case checkpoint.Resume:
		return start.From, nil
	default:
		return 0, fmt.Errorf("start on slot %q: unknown action %s", o.Slot, start.Action)
	}
}

// create makes the slot between two writes of the row, so that a crash at any point is told apart
// from a slot that somebody dropped.
func (o *Opener) create(ctx context.Context, s replication, srv checkpoint.Server) (wal.LSN, error) {
	if err := o.Rows.Create(ctx, srv, o.Publication); err != nil {
		return 0, err
	}
	o.Log.Info().Str("slot", o.Slot).Msg("making the slot; this waits for the transactions that are running")
	made, err := s.CreateSlot(ctx, o.Slot, wal.SlotOptions{Failover: s.System().FailoverSlots()})
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == duplicateObject {
		// Not %w of the cause: that another relay makes it at the same moment is no missing object.
		return 0, fmt.Errorf("create slot %q: %w: %v", o.Slot, checkpoint.ErrSlotBeingMade, err) //nolint:errorlint // see above
	}
	if err != nil {
		return 0, err
	}
	rows, exact, err := o.Outbox.Older(ctx, made.Snapshot)
	switch {
	case err != nil:
		o.Log.Warn().Err(err).Msg("can't count the rows that are older than the slot; they are not published")
	case rows > 0:
		o.Log.Warn().Int64("rows", rows).Bool("exact", exact).Stringer("lsn", made.Consistent).
			Msg("the outbox holds rows that are older than the slot; they are not published")
	}
	return made.Consistent, o.Rows.GoLive(ctx, srv, made.Consistent)
}

// duplicateObject is the SQLSTATE of a slot that exists already.
const duplicateObject = "42710"

func server(ctx context.Context, s replication) (checkpoint.Server, error) {
	sys, err := s.Identify(ctx)
	if err != nil {
		return checkpoint.Server{}, err
	}
	history, err := s.TimelineHistory(ctx, sys.Timeline)
	if err != nil {
		return checkpoint.Server{}, err
	}
	srv := checkpoint.Server{SystemID: sys.ID, Timeline: sys.Timeline, Flushed: sys.Flushed, Database: sys.Database}
	for _, h := range history {
		srv.History = append(srv.History, checkpoint.Switch{Timeline: h.Timeline, End: h.Switch})
	}
	return srv, nil
}

func slotOf(i *wal.SlotInfo) *checkpoint.Slot {
	if i == nil {
		return nil
	}
	return &checkpoint.Slot{
		Name: i.Name, Plugin: i.Plugin, Database: i.Database, Confirmed: i.Confirmed, WALStatus: i.WALStatus,
		Invalid: i.Invalidation, Temporary: i.Temporary, TwoPhase: i.TwoPhase, ActivePID: i.ActivePID,
	}
}
