package checkpoint

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/wal"
)

// Read returns the slot's row, and nil where there is none.
func (s *Store) Read(ctx context.Context) (*Row, error) {
	var row *Row
	err := s.Do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		r := Row{Slot: s.cfg.Slot}
		var owner *[16]byte
		err := conn.QueryRow(ctx, `
			select state, system_id, timeline, stored::text, owner, publication, updated_at
			from `+s.schema+`.checkpoint where slot = $1`, s.cfg.Slot).
			Scan(&r.State, &r.SystemID, &r.Timeline, &r.Stored, &owner, &r.Publication, &r.UpdatedAt)
		if errors.Is(err, pgx.ErrNoRows) {
			row = nil
			return nil
		}
		if owner != nil {
			r.Owner = *owner
		}
		row = &r
		return err
	})
	if err != nil {
		return nil, s.explain("read the stored position of", "checkpoint", err)
	}
	return row, nil
}

// Create begins a first start: the row becomes creating, and the lineages of the server are
// there. It may be called again while it is creating. ErrChanged where the row is live.
func (s *Store) Create(ctx context.Context, srv Server, publication string) error {
	// A row that is creating already is written too: this commit then waits for what the server's
	// synchronous_commit asks for, and an earlier one that was cut off may not have.
	return s.change(ctx, "begin the first start of", srv, `
		insert into `+s.schema+`.checkpoint as c (slot, state, system_id, timeline, stored, publication)
		values ($1, 'creating', $2, $3, '0/0', $4)
		on conflict (slot) do update
		set state = 'creating', system_id = $2, timeline = $3, stored = '0/0', publication = $4, owner = null, updated_at = clock_timestamp()
		where c.state in ('creating', 'retired')`, s.cfg.Slot, srv.SystemID, srv.Timeline, publication)
}

// GoLive ends a first start: the slot exists and begins at stored. ErrChanged where the row
// isn't creating any more.
func (s *Store) GoLive(ctx context.Context, srv Server, stored wal.LSN) error {
	return s.change(ctx, "finish the first start of", srv, `
		update `+s.schema+`.checkpoint
		set state = 'live', system_id = $2, timeline = $3, stored = $4::text::pg_lsn, owner = null, updated_at = clock_timestamp()
		where slot = $1 and state = 'creating'`, s.cfg.Slot, srv.SystemID, srv.Timeline, stored.String())
}

// Adopt makes the row of a slot that somebody else has used so far, at its confirmed position.
// ErrChanged where there is a row.
func (s *Store) Adopt(ctx context.Context, srv Server, stored wal.LSN, publication string) error {
	return s.change(ctx, "adopt", srv, `
		insert into `+s.schema+`.checkpoint (slot, state, system_id, timeline, stored, publication)
		values ($1, 'live', $2, $3, $4::text::pg_lsn, $5)
		on conflict (slot) do nothing`, s.cfg.Slot, srv.SystemID, srv.Timeline, stored.String(), publication)
}

// Failover takes the row from the timeline that from was stored on to the server's, with the
// lineages of the timelines between, in one transaction. ErrChanged where the row isn't from.
func (s *Store) Failover(ctx context.Context, from *Row, srv Server, stored wal.LSN) error {
	return s.change(ctx, "follow the failover of", srv, `
		update `+s.schema+`.checkpoint
		set timeline = $2, stored = $3::text::pg_lsn, owner = null, updated_at = clock_timestamp()
		where slot = $1 and state = 'live' and system_id = $4 and timeline = $5 and stored = $6::text::pg_lsn`,
		s.cfg.Slot, srv.Timeline, stored.String(), from.SystemID, from.Timeline, from.Stored.String())
}

// change runs one statement that must touch the row, and adds the lineages that are missing.
func (s *Store) change(ctx context.Context, doing string, srv Server, statement string, args ...any) error {
	err := s.Do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			tag, err := tx.Exec(ctx, statement, args...)
			if err != nil {
				return err
			}
			if tag.RowsAffected() != 1 {
				return ErrChanged
			}
			return s.addLineages(ctx, tx, srv)
		})
	})
	if err != nil {
		return s.explain(doing, "checkpoint", err)
	}
	return nil
}

// local makes a statement that writes nothing but the row wait for this server's disk only. A
// standby that is away must not hold up what only saves repeats.
const local = `with local as (select set_config('synchronous_commit', 'local', true)) `

// Take makes this relay the owner of the slot's row and returns the stored position. It is called
// after START_REPLICATION has succeeded, since only one relay can hold the slot, and before
// anything is published. ErrChanged where there is no live row.
func (s *Store) Take(ctx context.Context) (stored wal.LSN, err error) {
	err = s.Do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		err := conn.QueryRow(ctx, local+`
			update `+s.schema+`.checkpoint set owner = $2::text::uuid, updated_at = clock_timestamp()
			from local where slot = $1 and state = 'live' returning stored::text`, s.cfg.Slot, s.cfg.Owner.String()).Scan(&stored)
		if errors.Is(err, pgx.ErrNoRows) {
			return ErrChanged
		}
		return err
	})
	if err != nil {
		return 0, s.explain("take the row of", "checkpoint", err)
	}
	return stored, nil
}

// Save raises the stored position; it is on this server's disk on return. ErrOwnerLost where
// the row has another owner, or none, or is ahead of stored.
func (s *Store) Save(ctx context.Context, stored wal.LSN) error {
	err := s.Do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		tag, err := conn.Exec(ctx, local+`
			update `+s.schema+`.checkpoint set stored = $3::text::pg_lsn, updated_at = clock_timestamp()
			from local where slot = $1 and owner = $2::text::uuid and state = 'live' and stored <= $3::text::pg_lsn`,
			s.cfg.Slot, s.cfg.Owner.String(), stored.String())
		if err != nil {
			return err
		}
		if tag.RowsAffected() != 1 {
			return s.whyLost(ctx, conn)
		}
		return nil
	})
	if err != nil {
		return s.explain(fmt.Sprintf("store position %s of", stored), "checkpoint", err)
	}
	return nil
}

// CheckOwner returns ErrOwnerLost where this relay doesn't own the slot's row.
func (s *Store) CheckOwner(ctx context.Context) error {
	err := s.Do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		var mine bool
		err := conn.QueryRow(ctx, `select owner is not distinct from $2::text::uuid from `+s.schema+`.checkpoint where slot = $1`,
			s.cfg.Slot, s.cfg.Owner.String()).Scan(&mine)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		if !mine {
			return s.whyLost(ctx, conn)
		}
		return nil
	})
	if err != nil {
		return s.explain("check the owner of", "checkpoint", err)
	}
	return nil
}

// whyLost is ErrOwnerLost with what the row holds instead.
func (s *Store) whyLost(ctx context.Context, conn *pgx.Conn) error {
	var state State
	var owner, stored string
	err := conn.QueryRow(ctx, `select state, coalesce(owner::text, 'nobody'), stored::text from `+s.schema+`.checkpoint where slot = $1`, s.cfg.Slot).
		Scan(&state, &owner, &stored)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("%w: its row is gone", ErrOwnerLost)
	case err != nil:
		return err
	}
	return fmt.Errorf("%w: its row is %s, owned by %s (this relay is %s), stored %s", ErrOwnerLost, state, owner, s.cfg.Owner, stored)
}
