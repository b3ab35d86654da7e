package sql

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

func (s *setup) publish(ctx context.Context) error {
	what := fmt.Sprintf("publication %s", s.publication)
	var all, insert, others bool
	err := s.tx.QueryRow(ctx, `select puballtables, pubinsert, pubupdate or pubdelete or pubtruncate from pg_publication where pubname = $1`, s.publication).
		Scan(&all, &insert, &others)
	if errors.Is(err, pgx.ErrNoRows) {
		s.made(what)
		return s.run(ctx, what, "publication.sql")
	}
	if err != nil {
		return explain(what, err)
	}
	var listed, own bool
	err = s.tx.QueryRow(ctx, `
		select coalesce(bool_or(n.nspname = $2 and t.tablename = $3), false), coalesce(bool_or(n.nspname = $4), false)
		from pg_publication_tables t join pg_namespace n on n.nspname = t.schemaname
		where t.pubname = $1`, s.publication, s.tableSchema, s.table, s.schema).Scan(&listed, &own)
	if err != nil {
		return explain(what, err)
	}
	if !listed {
		// A partitioned table is listed by its partitions, unless it is published as a whole.
		err = s.tx.QueryRow(ctx, `
			select exists (
				select from pg_publication_rel r join pg_publication p on p.oid = r.prpubid
				where p.pubname = $1 and r.prrelid = to_regclass($2))`,
			s.publication, pgx.Identifier{s.tableSchema, s.table}.Sanitize()).Scan(&listed)
		if err != nil {
			return explain(what, err)
		}
	}
	name := pgx.Identifier{s.publication}.Sanitize()
	table := pgx.Identifier{s.tableSchema, s.table}.Sanitize()
	switch {
	case all, own:
		return &RefusedError{
			Object: what, Cause: "it exists and holds the relay's own tables, whose changes would feed the relay for ever",
			Remedy: "name another publication, for the outbox alone",
		}
	case !insert:
		return &RefusedError{
			Object: what, Cause: "it exists and doesn't publish inserts",
			Remedy: fmt.Sprintf("alter publication %s set (publish = 'insert')", name),
		}
	case !listed:
		return &RefusedError{
			Object: what, Cause: fmt.Sprintf("it exists and doesn't hold %s", table),
			Remedy: fmt.Sprintf("alter publication %s add table %s, or name another publication", name, table),
		}
	case others:
		s.warn(fmt.Sprintf("publication %s publishes more than inserts, which may make the application's own updates fail and is decoded in vain: "+
			"alter publication %s set (publish = 'insert')", s.publication, name))
	}
	s.kept(what)
	return nil
}

func (s *setup) grant(ctx context.Context) error {
	if s.role == "" {
		return nil
	}
	what := "rights of role " + s.role
	var replication bool
	err := s.tx.QueryRow(ctx, `select rolreplication or rolsuper from pg_roles where rolname = $1`, s.role).Scan(&replication)
	if errors.Is(err, pgx.ErrNoRows) {
		return &RefusedError{
			Object: "role " + s.role, Cause: "it doesn't exist",
			Remedy: fmt.Sprintf("create role %s login replication password '...'", pgx.Identifier{s.role}.Sanitize()),
		}
	}
	if err != nil {
		return fmt.Errorf("look at the %s: %w", what, err)
	}
	granted, err := s.granted(ctx)
	if err != nil {
		return err
	}
	if granted {
		s.kept(what)
	} else {
		if err := s.run(ctx, what, "grants.sql"); err != nil {
			return err
		}
		s.made(what)
	}
	if !replication {
		s.warn(fmt.Sprintf("role %s lacks the attribute REPLICATION, which run needs. A superuser gives it with: alter role %s replication",
			s.role, pgx.Identifier{s.role}.Sanitize()))
	}
	return nil
}

// granted says whether the role has all rights that grants.sql gives.
func (s *setup) granted(ctx context.Context) (all bool, err error) {
	err = s.tx.QueryRow(ctx, `
		select has_schema_privilege($1, $2, 'usage') and has_schema_privilege($1, $3, 'usage')
			and has_table_privilege($1, to_regclass($4), 'select')
			and (select bool_and(has_table_privilege($1, c.oid, p))
				from pg_class c join pg_namespace n on n.oid = c.relnamespace,
					unnest(case when c.relname = 'meta' then array['select'] else array['select', 'insert', 'update', 'delete'] end) p
				where n.nspname = $2 and c.relname = any ($5))`,
		s.role, s.schema, s.tableSchema, pgx.Identifier{s.tableSchema, s.table}.Sanitize(), relayTableNames()).Scan(&all)
	if err != nil {
		return false, fmt.Errorf("look at the rights of role %s: %w", s.role, err)
	}
	return all, nil
}

func relayTableNames() []string {
	names := make([]string, 0, len(relayTables))
	for name := range relayTables {
		names = append(names, name)
	}
	return names
}
