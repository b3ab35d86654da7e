package catalog

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Publication is what a publication sends.
type Publication struct {
	Name                             string
	OID                              uint32
	Insert, Update, Delete, Truncate bool
	ViaRoot                          bool // rows of partitions come as rows of the whole table
	// Tables are those it was made for, by name or by their schema. A partition is not listed
	// beside its parent.
	Tables []Table
}

// Table is a table of a publication.
type Table struct {
	OID         uint32
	Name        Name
	Partitioned bool
	Columns     []string // the published ones; nil is all
	Filter      string   // of its rows; empty is all
}

// Publication reads a publication. An *Error says that there is none of that name, that it doesn't
// send inserts, or that it holds the relay's own tables.
func (c *Catalog) Publication(ctx context.Context, name string) (Publication, error) {
	p := Publication{Name: name}
	what := fmt.Sprintf("publication %q", name)
	quoted := pgx.Identifier{name}.Sanitize()
	var all bool
	err := c.db.Do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		err := conn.QueryRow(ctx, `
			select oid, pubinsert, pubupdate, pubdelete, pubtruncate, pubviaroot, puballtables from pg_publication where pubname = $1`, name).
			Scan(&p.OID, &p.Insert, &p.Update, &p.Delete, &p.Truncate, &p.ViaRoot, &all)
		if errors.Is(err, pgx.ErrNoRows) {
			return &Error{
				Cause: what + ": it doesn't exist in this database",
				Remedy: fmt.Sprintf("run cdc-relay setup --publication %s, or: create publication %s for table <the outbox> with (publish = 'insert')",
					shellQuote(name), quoted),
			}
		}
		if err != nil || all {
			return err
		}
		p.Tables, err = tables(ctx, conn, p.OID)
		return err
	})
	switch {
	case err != nil:
		return p, explain("read "+what, err)
	case all:
		return p, &Error{
			Cause:  what + " is for all tables, so it holds the relay's own, whose changes would feed the relay for ever",
			Remedy: "make a publication for the outbox alone",
		}
	case !p.Insert:
		return p, &Error{Cause: what + " doesn't publish inserts", Remedy: fmt.Sprintf("alter publication %s set (publish = 'insert')", quoted)}
	}
	for _, t := range p.Tables {
		if t.Name.Schema == c.relay {
			return p, &Error{
				Cause:  fmt.Sprintf("%s holds %s, a table of the relay, whose changes would feed the relay for ever", what, t.Name),
				Remedy: fmt.Sprintf("alter publication %s drop table %s (or drop tables in schema %s)", quoted, t.Name.sql(), pgx.Identifier{c.relay}.Sanitize()),
			}
		}
	}
	return p, nil
}

// Table returns a table of the publication, and an *Error where the publication doesn't hold it.
func (p Publication) Table(name Name) (Table, error) {
	for _, t := range p.Tables {
		if t.Name == name {
			return t, nil
		}
	}
	return Table{}, &Error{
		Cause:  fmt.Sprintf("publication %q doesn't hold the table %s", p.Name, name),
		Remedy: fmt.Sprintf("alter publication %s add table %s", pgx.Identifier{p.Name}.Sanitize(), name.sql()),
	}
}

// schemas is the first version whose publications know schemas, filters and columns.
const schemas = 150000

// tables are the members of a publication that have no ancestor among the members.
func tables(ctx context.Context, conn *pgx.Conn, publication uint32) ([]Table, error) {
	var version int
	if err := conn.QueryRow(ctx, `select current_setting('server_version_num')::int`).Scan(&version); err != nil {
		return nil, err
	}
	member := `select prrelid as oid, null::text[] as columns, '' as filter from pg_publication_rel where prpubid = $1`
	if version >= schemas {
		member = `
			select r.prrelid as oid, (
					select array_agg(a.attname::text order by a.attnum) from pg_attribute a
					where a.attrelid = r.prrelid and r.prattrs is not null and a.attnum = any (r.prattrs::int2[])) as columns,
				coalesce(pg_get_expr(r.prqual, r.prrelid), '') as filter
			from pg_publication_rel r where r.prpubid = $1
			union all
			select c.oid, null, ''
			from pg_publication_namespace s join pg_class c on c.relnamespace = s.pnnspid
			where s.pnpubid = $1 and c.relkind in ('r', 'p') and c.relpersistence = 'p'
				and c.oid not in (select prrelid from pg_publication_rel where prpubid = $1)`
	}
	rows, err := conn.Query(ctx, `
		with member as (`+member+`)
		select c.oid, n.nspname::text, c.relname::text, c.relkind = 'p', m.columns, m.filter
		from member m join pg_class c on c.oid = m.oid join pg_namespace n on n.oid = c.relnamespace
		where not exists (
			select from pg_partition_ancestors(c.oid) a join member o on o.oid = a.relid where a.relid <> c.oid)
		order by 2, 3`, publication)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (t Table, err error) {
		err = row.Scan(&t.OID, &t.Name.Schema, &t.Name.Table, &t.Partitioned, &t.Columns, &t.Filter)
		return t, err
	})
}

// shellQuote makes one word of a shell's command line.
func shellQuote(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
