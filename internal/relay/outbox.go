package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"

	"github.com/cdc-relay/cdc-relay/decode"
	"github.com/cdc-relay/cdc-relay/decode/shape"
	"github.com/cdc-relay/cdc-relay/internal/catalog"
)

// Outbox finds the outbox in its publication and tells which relations of the stream belong to it.
type Outbox struct {
	DB          catalog.Lender
	Catalog     *catalog.Catalog
	Publication string
	// Tables names the outbox; empty: the one published table that has the columns.
	Tables []catalog.Name
	// Ignore are tables whose rows may be stepped over although they don't exist any more.
	Ignore []catalog.Name
	Log    zerolog.Logger
	// Shape is how its rows become events; the table's name is filled in.
	Shape shape.Config

	found atomic.Pointer[catalog.Table] // by the last Check
}

// OutboxError says that no published table can be taken for the outbox.
type OutboxError struct {
	Publication string
	Reason      string
	Remedy      string
}

func (e *OutboxError) Error() string {
	return fmt.Sprintf("find the outbox in publication %q: %s", e.Publication, e.Reason)
}

// Hint is what an operator can do.
func (e *OutboxError) Hint() string { return e.Remedy }

// ExitCode is that of a missing object.
func (e *OutboxError) ExitCode() int { return 2 }

// Check says whether server, publication and outbox are as they must be, and returns the outbox's shape.
func (o *Outbox) Check(ctx context.Context) (*shape.Shape, error) {
	if err := o.Catalog.CheckServer(ctx); err != nil {
		return nil, err
	}
	p, err := o.Catalog.Publication(ctx, o.Publication)
	if err != nil {
		return nil, err
	}
	found, sh, err := o.find(ctx, p)
	if err != nil {
		return nil, err
	}
	if found.Filter != "" {
		o.Log.Warn().Str("table", found.Name.String()).Str("filter", found.Filter).Msg("the publication filters the outbox: rows that don't pass are no events")
	}
	o.found.Store(&found)
	return sh, nil
}

// find is the configured table, or the only one that fits.
func (o *Outbox) find(ctx context.Context, p catalog.Publication) (found catalog.Table, sh *shape.Shape, err error) {
	if len(o.Tables) > 0 {
		if found, err = p.Table(o.Tables[0]); err == nil {
			sh, err = o.fit(ctx, found)
		}
		var columns *shape.ColumnsError
		if errors.As(err, &columns) {
			err = &OutboxError{Publication: p.Name, Reason: err.Error(), Remedy: "add the columns, or name another table in outbox.tables"}
		}
		return found, sh, err
	}
	var fits []string
	var why []error
	for _, t := range p.Tables {
		fit, err := o.fit(ctx, t)
		var columns *shape.ColumnsError
		switch {
		case err == nil:
			found, sh = t, fit
			fits = append(fits, t.Name.String())
		case errors.As(err, &columns):
			why = append(why, err)
		default:
			return found, nil, err
		}
	}
	switch {
	case len(fits) == 1:
		return found, sh, nil
	case len(fits) > 1:
		return found, nil, &OutboxError{
			Publication: p.Name, Reason: "several tables have the columns of an outbox: " + strings.Join(fits, ", "),
			Remedy: "name one in outbox.tables",
		}
	case len(why) > 0:
		return found, nil, &OutboxError{
			Publication: p.Name, Reason: "no table has the columns of an outbox: " + errors.Join(why...).Error(),
			Remedy: "add the columns, or publish the table that has them",
		}
	default:
		return found, nil, &OutboxError{
			Publication: p.Name, Reason: "it holds no table",
			Remedy: "run cdc-relay setup, or: alter publication " + pgx.Identifier{p.Name}.Sanitize() + " add table <the outbox>",
		}
	}
}

// fit says whether a published table has the columns of an outbox.
func (o *Outbox) fit(ctx context.Context, table catalog.Table) (*shape.Shape, error) {
	cfg := o.Shape
	cfg.Table = table.Name.String()
	sh, err := shape.New(cfg)
	if err != nil {
		return nil, err
	}
	columns, err := o.Catalog.Columns(ctx, table.Name)
	if err != nil {
		return nil, err
	}
	rel := &decode.Relation{Schema: table.Name.Schema, Name: table.Name.Table}
	for _, c := range columns {
		if table.Columns == nil || slices.Contains(table.Columns, c.Name) {
			rel.Columns = append(rel.Columns, decode.Column{Name: c.Name, Type: c.Type})
		}
	}
	err = sh.CheckRelation(rel)
	return sh, err
}

// Classify implements Catalog.
func (o *Outbox) Classify(ctx context.Context, id uint32, schema, name string) (decode.Class, error) {
	for _, n := range o.Ignore {
		if n.Schema == schema && n.Table == name {
			return decode.Foreign, nil
		}
	}
	outbox := o.found.Load()
	if outbox == nil {
		return decode.Unknown, errors.New("the outbox has not been looked up yet")
	}
	c := catalog.Classifier{Catalog: o.Catalog, Publication: o.Publication, Outbox: outbox.Name, OID: outbox.OID}
	return c.Classify(ctx, id, schema, name)
}

// countTimeout bounds the counting of rows that are older than a new slot.
const countTimeout = 5 * time.Second

// Older counts the rows of the outbox that a slot's snapshot sees: they are older than the slot.
// Where counting takes too long it returns the planner's estimate and false.
func (o *Outbox) Older(ctx context.Context, snapshot string) (rows int64, exact bool, err error) {
	table := o.found.Load()
	if table == nil {
		return 0, false, errors.New("the outbox has not been looked up yet")
	}
	quoted := pgx.Identifier{table.Name.Schema, table.Name.Table}.Sanitize()
	count := func(ctx context.Context, conn *pgx.Conn) error {
		return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "set transaction snapshot '"+strings.ReplaceAll(snapshot, "'", "''")+"'"); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, fmt.Sprintf("set local statement_timeout = %d", countTimeout.Milliseconds())); err != nil {
				return err
			}
			return tx.QueryRow(ctx, "select count(*) from "+quoted).Scan(&rows)
		})
	}
	if err = o.DB.Do(ctx, count); err == nil {
		return rows, true, nil
	}
	estimate := o.DB.Do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "select greatest(reltuples, 0)::bigint from pg_class where oid = $1::text::regclass", quoted).Scan(&rows)
	})
	if estimate != nil {
		return 0, false, errors.Join(err, estimate)
	}
	return rows, false, nil
}
