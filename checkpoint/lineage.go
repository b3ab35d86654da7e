package checkpoint

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/wal"
)

// lineage is a row of the table lineage: from From on, commits of this timeline have number No.
type lineage struct {
	No       int
	SystemID string
	Timeline int32
	From     wal.LSN
}

// Lineages returns those of the server's own history.
func (s *Store) Lineages(ctx context.Context, srv Server) (wal.Lineages, error) {
	var ls wal.Lineages
	err := s.Do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		all, err := s.readLineages(ctx, conn)
		ls = of(all, srv)
		return err
	})
	if err != nil {
		return nil, s.explain("read the lineages for", "lineage", err)
	}
	return ls, nil
}

type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func (s *Store) readLineages(ctx context.Context, q querier) ([]lineage, error) {
	rows, err := q.Query(ctx, `select no, system_id, timeline, from_lsn::text from `+s.schema+`.lineage order by no`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (l lineage, err error) {
		err = row.Scan(&l.No, &l.SystemID, &l.Timeline, &l.From)
		return l, err
	})
}

// addLineages writes down the lineages that the server's history needs.
func (s *Store) addLineages(ctx context.Context, tx pgx.Tx, srv Server) error {
	// Relays of other slots may add the same ones at the same time.
	if _, err := tx.Exec(ctx, `lock table `+s.schema+`.lineage in share row exclusive mode`); err != nil {
		return err
	}
	have, err := s.readLineages(ctx, tx)
	if err != nil {
		return err
	}
	for _, l := range missingLineages(have, srv) {
		if l.No > math.MaxUint16 {
			return fmt.Errorf("number the lineage of timeline %d: %d is more than a position can hold", l.Timeline, l.No)
		}
		if _, err := tx.Exec(ctx, `insert into `+s.schema+`.lineage (no, system_id, timeline, from_lsn) values ($1, $2, $3, $4::text::pg_lsn)`,
			l.No, l.SystemID, l.Timeline, l.From.String()); err != nil {
			return err
		}
	}
	return nil
}

// missingLineages are those that must be added so that every commit of the server's history has
// one. A system seen for the first time gets one for all it has ever written; a timeline that
// follows a known one begins where that ended, and one that nobody watched gets its own too, so
// that the numbers don't depend on when a relay was up.
func missingLineages(have []lineage, srv Server) []lineage {
	no := 0
	known := map[int32]bool{}
	for _, l := range have {
		no = max(no, l.No)
		if l.SystemID == srv.SystemID {
			known[l.Timeline] = true
		}
	}
	newest := -1 // index in the history of the newest known ancestor
	for i, h := range srv.History {
		if known[h.Timeline] {
			newest = i
		}
	}
	var missing []lineage
	add := func(timeline int32, from wal.LSN) {
		no++
		missing = append(missing, lineage{No: no, SystemID: srv.SystemID, Timeline: timeline, From: from})
	}
	if known[srv.Timeline] {
		return nil
	}
	if newest < 0 {
		add(srv.Timeline, 0)
		return missing
	}
	for i, h := range srv.History[newest:] {
		next := srv.Timeline
		if rest := srv.History[newest+i+1:]; len(rest) > 0 {
			next = rest[0].Timeline
		}
		add(next, h.End)
	}
	return missing
}

// of are the lineages that belong to the server's own history.
func of(all []lineage, srv Server) wal.Lineages {
	var ls wal.Lineages
	for _, l := range all {
		if l.SystemID != srv.SystemID {
			continue
		}
		ancestor := slices.ContainsFunc(srv.History, func(h Switch) bool { return h.Timeline == l.Timeline })
		if ancestor || l.Timeline == srv.Timeline {
			ls = append(ls, wal.Lineage{No: uint16(l.No), From: l.From})
		}
	}
	return ls
}
