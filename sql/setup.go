package sql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Report is what a setup made, found and wants to be known.
type Report struct {
	Made     []string // one phrase for each object
	Kept     []string // what was there already
	Warnings []string // one sentence each, with what to do
}

// Beginner begins a transaction: a *pgx.Conn, or a pgx.Tx, which then decides whether it stays.
type Beginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// Setup makes what is missing, in one transaction: all of it or nothing. Run again, it changes
// nothing. What it can't do or won't touch is a *RefusedError. It needs the rights of the
// database's owner; where they are missing, what Print prints is for somebody who has them.
func Setup(ctx context.Context, conn Beginner, o Options) (Report, error) {
	n, err := o.names()
	if err != nil {
		return Report{}, err
	}
	s := setup{names: n}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		s.tx = tx
		for _, step := range []func(context.Context) error{s.server, s.relay, s.outbox, s.publish, s.grant} {
			if err := step(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return Report{}, fmt.Errorf("set up: %w", err)
	}
	return s.report, nil
}

type setup struct {
	names
	tx     pgx.Tx
	report Report
}

func (s *setup) made(what string) { s.report.Made = append(s.report.Made, what) }
func (s *setup) kept(what string) { s.report.Kept = append(s.report.Kept, what) }
func (s *setup) warn(what string) { s.report.Warnings = append(s.report.Warnings, what) }

func (s *setup) run(ctx context.Context, object, file string) error {
	text, err := s.script(file)
	if err != nil {
		return err
	}
	_, err = s.tx.Exec(ctx, text)
	return explain(object, err)
}

// setupLock is the key of the advisory lock that lets one setup run at a time.
const setupLock = 0x6364637265 // "cdcre"

// oldest is the first supported version of Postgres, as server_version_num.
const oldest = 140000

func (s *setup) server(ctx context.Context) error {
	var version int
	var recovery bool
	var walLevel string
	err := s.tx.QueryRow(ctx, `select current_setting('server_version_num')::int, pg_is_in_recovery(), current_setting('wal_level')`).
		Scan(&version, &recovery, &walLevel)
	if err != nil {
		return fmt.Errorf("look at the server: %w", err)
	}
	if version < oldest {
		return &RefusedError{Object: "server", Cause: fmt.Sprintf("it is Postgres %d", version/10000), Remedy: "Postgres 14 or newer is needed"}
	}
	if recovery {
		return &RefusedError{Object: "server", Cause: "it is a standby, which can't be written to", Remedy: "connect to the primary"}
	}
	if walLevel != "logical" {
		s.warn(fmt.Sprintf("wal_level is %s, and run needs logical: alter system set wal_level = 'logical', then restart Postgres", walLevel))
	}
	if _, err := s.tx.Exec(ctx, `select pg_advisory_xact_lock($1)`, int64(setupLock)); err != nil {
		return fmt.Errorf("wait for another setup: %w", err)
	}
	return nil
}

// relayTables are the relay's own tables with their columns.
var relayTables = map[string][]string{
	"meta":       {"only_row", "version"},
	"checkpoint": {"slot", "state", "system_id", "timeline", "stored", "owner", "publication", "fingerprint", "updated_at"},
	"lineage":    {"no", "system_id", "timeline", "from_lsn"},
	"contract":   {"topic", "no", "lineage", "from_lsn", "partition_count", "hash", "keys", "ordering_key", "mapping", "value_format"},
	"rejected_event": {
		"slot", "position", "topic", "partition", "shard_key", "record_key", "record_value", "headers", "timestamp_ms",
		"dedupe_key", "policy", "state", "request", "attempts", "last_error", "created_at", "updated_at",
	},
}

func (s *setup) relay(ctx context.Context) error {
	what := "schema " + s.schema
	version, found, err := s.version(ctx)
	if err != nil {
		return err
	}
	if found && version != Version {
		return &RefusedError{
			Object: what,
			Cause:  fmt.Sprintf("its version is %d, this cdc-relay knows %d", version, Version),
			Remedy: "use the version of cdc-relay that made it, or one that upgrades it",
		}
	}
	tables, foreign, err := s.inspect(ctx)
	if err != nil {
		return err
	}
	switch {
	case len(foreign) > 0:
		return &RefusedError{
			Object: what,
			Cause:  "it holds tables of another make, without " + strings.Join(foreign, ", "),
			Remedy: "choose another schema, or drop these tables if nothing needs them",
		}
	case found && tables == len(relayTables):
		s.kept(what)
		return nil
	}
	s.made(what)
	return s.run(ctx, what, "relay.sql")
}

// version of the relay's schema, and whether there is one.
func (s *setup) version(ctx context.Context) (version int, found bool, err error) {
	meta := pgx.Identifier{s.schema, "meta"}.Sanitize()
	if err := s.tx.QueryRow(ctx, `select to_regclass($1) is not null`, meta).Scan(&found); err != nil || !found {
		return 0, false, explain("schema "+s.schema, err)
	}
	columns, err := s.columns(ctx, s.schema, "meta")
	if err != nil || !slices.Contains(columns, "version") {
		return 0, false, err
	}
	err = s.tx.QueryRow(ctx, `select version from `+meta).Scan(&version)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, false, nil
	}
	return version, true, explain("table "+s.schema+".meta", err)
}

// inspect says how many of the relay's tables are there, and which columns they lack.
func (s *setup) inspect(ctx context.Context) (tables int, lacks []string, err error) {
	for table, want := range relayTables {
		have, err := s.columns(ctx, s.schema, table)
		if err != nil {
			return 0, nil, err
		}
		if len(have) == 0 {
			continue
		}
		tables++
		for _, c := range want {
			if !slices.Contains(have, c) {
				lacks = append(lacks, table+"."+c)
			}
		}
	}
	slices.Sort(lacks)
	return tables, lacks, nil
}

// columns of a table; none where there is no such table.
func (s *setup) columns(ctx context.Context, schema, table string) ([]string, error) {
	rows, err := s.tx.Query(ctx, `
		select a.attname::text
		from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
		where n.nspname = $1 and c.relname = $2 and a.attnum > 0 and not a.attisdropped`, schema, table)
	if err != nil {
		return nil, fmt.Errorf("read the columns of %s.%s: %w", schema, table, err)
	}
	columns, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("read the columns of %s.%s: %w", schema, table, err)
	}
	return columns, nil
}

// outboxColumns are those of the reference shape that an event is made of.
var outboxColumns = []string{"id", "entity_id", "event_type", "payload", "created_at"}

func (s *setup) outbox(ctx context.Context) error {
	what := fmt.Sprintf("table %s.%s", s.tableSchema, s.table)
	var hasSchema bool
	var kind, persistence *string
	err := s.tx.QueryRow(ctx, `
		select exists (select from pg_namespace where nspname = $1),
			(select relkind::text from pg_class where oid = to_regclass($2)),
			(select relpersistence::text from pg_class where oid = to_regclass($2))`,
		s.tableSchema, pgx.Identifier{s.tableSchema, s.table}.Sanitize()).Scan(&hasSchema, &kind, &persistence)
	if err != nil {
		return explain(what, err)
	}
	switch {
	case !hasSchema:
		return &RefusedError{Object: what, Cause: fmt.Sprintf("there is no schema %q", s.tableSchema), Remedy: "create the schema, or name another table"}
	case kind == nil && s.skipOutbox:
		return &RefusedError{Object: what, Cause: "it doesn't exist", Remedy: "create it, or let setup do so"}
	case kind == nil:
		s.made(what)
		return s.run(ctx, what, "outbox.sql")
	case *kind != "r" && *kind != "p", *persistence != "p":
		return &RefusedError{Object: what, Cause: "it isn't an ordinary, logged table, so it can't be published", Remedy: "name another table"}
	}
	if !s.skipOutbox {
		have, err := s.columns(ctx, s.tableSchema, s.table)
		if err != nil {
			return err
		}
		lacks := slices.DeleteFunc(slices.Clone(outboxColumns), func(c string) bool { return slices.Contains(have, c) })
		if len(lacks) > 0 {
			return &RefusedError{
				Object: what,
				Cause:  "it exists and lacks the columns " + strings.Join(lacks, ", "),
				Remedy: "add them, or name another table",
			}
		}
	}
	s.kept(what)
	return nil
}
