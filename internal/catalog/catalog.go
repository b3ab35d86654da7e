package catalog

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-relay/cdc-relay/decode"
)

// Lender lends a connection to the database of the outbox, and may call fn twice.
// checkpoint.Store is one.
type Lender interface {
	Do(ctx context.Context, fn func(context.Context, *pgx.Conn) error) error
}

// Name is that of a table: as it is, without quotes and without folding.
type Name struct{ Schema, Table string }

func (n Name) String() string { return n.Schema + "." + n.Table }

func (n Name) sql() string { return pgx.Identifier{n.Schema, n.Table}.Sanitize() }

// Error says what is missing or unfit, and what mends it.
type Error struct {
	Cause  string // with the object
	Remedy string
	Err    error // what Postgres said, or nil
}

func (e *Error) Error() string { return e.Cause }

func (e *Error) Unwrap() error { return e.Err }

// Hint is what an operator can do.
func (e *Error) Hint() string { return e.Remedy }

// ExitCode is that of a missing object or privilege.
func (e *Error) ExitCode() int { return 2 }

// Catalog asks over a borrowed connection. Any goroutines may use it.
type Catalog struct {
	db    Lender
	relay string // schema of the relay's own tables
}

// New returns a Catalog. relaySchema is the relay's own schema, whose tables no publication may hold.
func New(db Lender, relaySchema string) *Catalog { return &Catalog{db: db, relay: relaySchema} }

// CheckServer says with an *Error where the server can't stream changes.
func (c *Catalog) CheckServer(ctx context.Context) error {
	return c.db.Do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		var level string
		if err := conn.QueryRow(ctx, `show wal_level`).Scan(&level); err != nil {
			return explain("read wal_level", err)
		}
		if level != "logical" {
			return &Error{
				Cause:  fmt.Sprintf("server: wal_level is %s, and changes can be read only at logical", level),
				Remedy: "alter system set wal_level = 'logical', then restart Postgres",
			}
		}
		return nil
	})
}

// Column is a column of a table.
type Column struct {
	Name     string
	Type     uint32 // OID
	TypeName string // as SQL writes it
	NotNull  bool
}

// Columns returns those of a table in their order, and none where it doesn't exist.
func (c *Catalog) Columns(ctx context.Context, table Name) ([]Column, error) {
	var columns []Column
	err := c.db.Do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, `
			select a.attname::text, a.atttypid, format_type(a.atttypid, a.atttypmod), a.attnotnull
			from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
			where n.nspname = $1 and c.relname = $2 and a.attnum > 0 and not a.attisdropped
			order by a.attnum`, table.Schema, table.Table)
		if err != nil {
			return err
		}
		columns, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Column])
		return err
	})
	return columns, explain("read the columns of table "+table.String(), err)
}

// Classifier tells what the relations of a stream are.
type Classifier struct {
	Catalog     *Catalog
	Publication string
	Outbox      Name
	// OID is the outbox's, by which it is known also while it had another name. 0: not known.
	OID uint32
}

// Classify looks a relation up that came in the stream under this OID and name.
//
// It is the Outbox when it had the outbox's name then, is the outbox by OID or by name now, or is a
// partition of it. It is Foreign when the publication holds it, or what it is a partition of, or its
// partitions (publish_via_partition_root may have been changed since): that explains why its rows
// came. Else it is Unknown: it has been dropped, or left the publication. It may then have been a
// partition of the outbox that was detached since, so its rows must not be stepped over.
func (c *Classifier) Classify(ctx context.Context, id uint32, schema, name string) (decode.Class, error) {
	if schema == c.Outbox.Schema && name == c.Outbox.Table || c.OID != 0 && id == c.OID {
		return decode.Outbox, nil
	}
	var outbox, published bool
	err := c.Catalog.db.Do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `
			with tree as (
				select c.oid, n.nspname, c.relname, below
				from (
					select $1::oid as relid, false as below
					union all select relid, false from pg_partition_ancestors($1::oid::regclass)
					union all select relid, true from pg_partition_tree($1::oid::regclass)
				) t join pg_class c on c.oid = t.relid join pg_namespace n on n.oid = c.relnamespace)
			select exists (select from tree where (nspname = $2 and relname = $3 or oid = $5) and not below),
				exists (select from tree join pg_publication_tables p on p.pubname = $4 and p.schemaname = tree.nspname and p.tablename = tree.relname)`,
			id, c.Outbox.Schema, c.Outbox.Table, c.Publication, c.OID).Scan(&outbox, &published)
	})
	switch {
	case err != nil:
		return decode.Unknown, explain(fmt.Sprintf("look up table %s.%s (oid %d)", schema, name, id), err)
	case outbox:
		return decode.Outbox, nil
	case published:
		return decode.Foreign, nil
	default:
		return decode.Unknown, nil
	}
}

// insufficientPrivilege is from the appendix "PostgreSQL Error Codes" of the manual.
const insufficientPrivilege = "42501"

func explain(doing string, err error) error {
	if err == nil {
		return nil
	}
	var known *Error
	if errors.As(err, &known) {
		return err
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == insufficientPrivilege {
		return &Error{Cause: doing + ": " + pg.Message, Remedy: "run cdc-relay setup --role with the relay's role", Err: err}
	}
	return fmt.Errorf("%s: %w", doing, err)
}
