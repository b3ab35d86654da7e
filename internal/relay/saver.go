package relay

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-relay/cdc-relay/checkpoint"
	"github.com/cdc-relay/cdc-relay/wal"
)

// saves remembers how the writing of the stored position goes, across sessions.
type saves struct {
	mu      sync.Mutex
	at      wal.LSN   // the confirmed position when it last moved
	failing time.Time // since when it fails; zero while it works
	failure error
	acked   uint64    // events acknowledged at that time
	moved   time.Time // when the confirmed position or the acks last moved, or all was found complete
}

// keepSaving stores the confirmed position as it moves, until ctx ends. It returns an error only
// when this relay no longer owns the slot's row.
func (r *Relay) keepSaving(ctx context.Context, t *checkpoint.Tracker) error {
	tick := time.NewTicker(saveLook)
	defer tick.Stop()
	var wrote time.Time
	asked := r.cfg.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		confirmed, events := t.Progress()
		r.noteProgress(t, confirmed)
		now := r.cfg.Now()
		if now.Sub(asked) >= askEvery {
			asked = now
			if err := r.askOwner(ctx); err != nil {
				return err
			}
		}
		if now.Sub(wrote) < saveEvery || !checkpoint.DueToSave(r.stored.Stored(), confirmed, events > r.storedEvents.Load()) {
			continue
		}
		wrote = now
		writing, cancel := context.WithTimeout(ctx, saveTimeout)
		err := r.save(writing, t)
		cancel()
		if endsSession(err) {
			return err
		}
	}
}

// askOwner looks whether the row is still ours, and whether Postgres still takes connections: at a
// shutdown or a switchover it cuts SQL first and then waits for the walsender, which waits for us.
func (r *Relay) askOwner(ctx context.Context) error {
	asking, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	if err := r.cfg.Store.CheckOwner(asking); endsSession(err) {
		return err
	}
	return nil
}

// endsSession says whether an error of the row's connection means that this session is over: another
// relay owns the slot, or the server is going away. Any other is a matter of that connection alone.
func endsSession(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch pg.Code {
		case "57P01", "57P02", "57P03": // admin_shutdown, crash_shutdown, cannot_connect_now
			return true
		}
	}
	return errors.Is(err, checkpoint.ErrOwnerLost) || errors.Is(err, syscall.ECONNREFUSED)
}

// save stores the confirmed position durably and lets wal confirm it to Postgres, in this order.
func (r *Relay) save(ctx context.Context, t *checkpoint.Tracker) error {
	confirmed, events := t.Progress()
	if confirmed > r.stored.Stored() {
		err := r.cfg.Store.Save(ctx, confirmed)
		if !errors.Is(ctx.Err(), context.Canceled) && !errors.Is(err, checkpoint.ErrOwnerLost) { // we ended it, or it has an answer
			r.noteSave(err)
		}
		if err != nil {
			return err
		}
		r.stored.set(confirmed)
		if r.cfg.Events.CheckpointWrite != nil {
			r.cfg.Events.CheckpointWrite()
		}
	}
	r.storedEvents.Store(events)
	return nil
}

// noteSave logs when the writing begins to fail and when it works again.
func (r *Relay) noteSave(err error) {
	s := &r.saves
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure = err
	switch {
	case err == nil && !s.failing.IsZero():
		r.cfg.Log.Info().Msg("the stored position can be written again")
		s.failing = time.Time{}
	case err != nil && s.failing.IsZero():
		s.failing = r.cfg.Now()
		r.cfg.Log.Error().Err(err).Msg("the stored position can't be written; publishing goes on, but a crash would repeat more and more")
		if r.cfg.Events.Reconnect != nil {
			r.cfg.Events.Reconnect("sql")
		}
	}
}

func (r *Relay) noteProgress(t *checkpoint.Tracker, confirmed wal.LSN) {
	n, _ := t.InFlight()
	s := &r.saves
	s.mu.Lock()
	defer s.mu.Unlock()
	if acked := r.handler.published.Load(); confirmed > s.at || acked > s.acked || n == 0 {
		s.at, s.acked, s.moved = confirmed, acked, r.cfg.Now()
	}
}
