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

// Opener is the Origins of a real Postgres.
type Opener struct {
	// Wal gives the settings of a connection, anew for each: a password may have changed.
	Wal         func(ctx context.Context) (wal.Config, error)
	Rows        *checkpoint.Store
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

func (o *Opener) decide(ctx context.Context, s *wal.Stream) (Origin, error) {
	asking, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	slot, err := s.Slot(asking, o.Slot)
	if err != nil {
		return Origin{}, err
	}
	row, err := o.Rows.Read(asking)
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

// act does what Decide asks for before the START, and returns where that is.
func (o *Opener) act(ctx context.Context, s *wal.Stream, row *checkpoint.Row, srv checkpoint.Server, start checkpoint.Start) (wal.LSN, error) {
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
func (o *Opener) create(ctx context.Context, s *wal.Stream, srv checkpoint.Server) (wal.LSN, error) {
	if err := o.Rows.Create(ctx, srv, o.Publication); err != nil {
		return 0, err
	}
	o.Log.Info().Str("slot", o.Slot).Msg("making the slot; this waits for the transactions that are running")
	made, err := s.CreateSlot(ctx, o.Slot, wal.SlotOptions{Failover: s.System().Version >= failoverSlots})
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

// failoverSlots is the first version of Postgres that hands slots to standbys, as server_version_num.
const failoverSlots = 170000

func server(ctx context.Context, s *wal.Stream) (checkpoint.Server, error) {
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
