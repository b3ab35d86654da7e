package decode_test

import (
	"testing"

	"github.com/cdc-relay/cdc-relay/decode"
)

const partitions = `create table events (id int, region text, note text) partition by list (region);
	create table events_eu partition of events for values in ('eu');
	create table events_us (dropped int, note text, region text, id int);
	alter table events_us drop column dropped;
	alter table events attach partition events_us for values in ('us');`

// partitionSteps need a server from 15 on: one of 14 goes on sending the rows of a partition
// that was detached, until its walsender ends (pgoutput's rel_sync_cache_relation_cb forgets
// only the shape there, not whether the table is published).
var partitionSteps = byA(`begin`, `insert into events values (1, 'eu', 'a'), (2, 'us', 'b'), (3, 'eu', 'c')`, `commit`,
	`create table events_new partition of events default`, `insert into events values (4, 'made later', 'd')`,
	`insert into events_us (id, region, note) values (5, 'us', 'directly')`,
	`alter table events detach partition events_us`, `insert into events_us (id, region, note) values (6, 'us', 'detached')`, `drop table events_eu`)

// others are about what a table, a value or the server may be.
var others = []recording{
	{
		name: "reference-outbox", about: "the reference outbox table",
		setup: `create table outbox_events (id bigserial primary key, entity_id text, event_type text, dedupe_key text unique, partition_key text, ordering_key text,
			payload jsonb, status text default 'pending', attempts int default 0, last_error text, created_at timestamptz default clock_timestamp(), published_at timestamptz);
			create publication pub for table outbox_events with (publish = 'insert');`,
		steps: byA(`begin`, `insert into outbox_events (entity_id, event_type, payload) values ('A-1', 'order.created', '{"total": 1.50, "note": "Ünïcode ключ"}')`,
			`insert into outbox_events (entity_id, event_type, payload) values (null, 'order.paid', null)`, `commit`,
			`insert into outbox_events (entity_id, event_type, dedupe_key, partition_key, ordering_key, payload, created_at)
			 values ('A-1', 'order.shipped', 'd', 'p', 'o', '[]', '1969-12-31 23:59:59.999999+00')`,
			`insert into outbox_events (entity_id, event_type, payload, created_at) values ('', 'endless', '{}', 'infinity')`),
		shows: letters("BRIIC BIC BIC"),
	},
	{
		name: "null-and-empty", about: "NULL, empty and spaces are three things; a value may hold any character but NUL",
		steps: byA(`insert into notes values (1, null)`, `insert into notes values (2, '')`, `insert into notes values (3, ' ')`,
			`insert into notes values (4, E'\x01\t\n"\\''')`, `insert into notes values (5, 'ключ 🔑')`, `insert into notes values (6, 'NULL')`),
		shows: letters("BRIC BIC BIC BIC BIC BIC"),
	},
	{
		name: "toast", about: "a value of 640 kB that the table keeps out of line", setup: notesInserts + `alter table notes alter note set storage external;`,
		steps: byA(`insert into notes values (1, repeat('0123456789abcdef', 40000))`),
		shows: func(t *testing.T, got []decode.Change) {
			if row := of(got, decode.Row)[0].Row; len(row.Values[1].Text) != 640_000 {
				t.Errorf("the value has %d bytes", len(row.Values[1].Text))
			}
		},
	},
	{
		name: "ddl", about: "columns come and go inside a transaction; rows written before a change keep the old shape, also those of a table that is gone by now",
		steps: byA(`insert into notes values (1, 'before')`, `begin`, `alter table notes add w int default 5`, `insert into notes values (2, 'wide')`,
			`alter table notes drop note`, `insert into notes values (3, 6)`, `commit`, `alter table notes alter w type text`, `insert into notes values (4, 'as text')`,
			`alter table notes rename to notes_old`, `insert into notes_old values (5)`, `drop table notes_old`),
		shows: letters("BRIC BRIRIC BRIC BRIC"),
	},
	{
		name: "partitions", since: 15, about: "without publish_via_partition_root rows come as those of the leaf, in its own order of columns",
		setup: partitions + `create publication pub for table events with (publish = 'insert');`, steps: partitionSteps,
		shows: letters("BRIRIIC BRIC BIC"),
	},
	{
		name: "partitions-root", since: 15, about: "with publish_via_partition_root rows come as those of the root; root and leaf are both announced",
		setup: partitions + `create publication pub for table events with (publish = 'insert', publish_via_partition_root);`, steps: partitionSteps,
		shows: letters("BRRIRRIIC BRRIC BIC"),
	},
	{
		name: "types", about: "types that are not built in are named before the relation; values come as text in the pinned formats",
		setup: `create type mood as enum ('sad', 'ok'); create domain key as text check (value <> ''); create type pair as (x int, y text); create type span as range (subtype = int);
			create table typed (id int, m mood, k key, p pair, ms mood[], s span, u uuid, j json, jb jsonb, b bytea, at timestamptz, d date, i interval, n numeric, f float8, ok boolean);
			create publication pub for table typed with (publish = 'insert');`,
		steps: byA(`set timezone = 'Asia/Kolkata'`, `set datestyle = 'German'`, `set bytea_output = 'escape'`, `set extra_float_digits = 0`,
			`insert into typed values (1, 'ok', 'k', (1, 'a "b"'), '{sad,ok}', '[1,5)', 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', '{ "b" : 1, "a":2}', '{ "b" : 1, "a":2}',
			 '\x00ff', '2026-10-01 12:00:00+00', '2026-10-01', '1 day 02:03:04', 1.50, 0.1::float8 + 0.2, true)`),
		shows: func(t *testing.T, got []decode.Change) {
			n := 0
			for _, c := range got {
				if c.Op == 'Y' {
					n++
				}
			}
			if n < 4 {
				t.Errorf("%d types are named", n)
			}
		},
	},
	{
		name: "origin", about: "a transaction that was replayed from another server names it",
		steps: byA(`select pg_replication_origin_create('elsewhere') where not exists (select from pg_replication_origin where roname = 'elsewhere')`,
			`select pg_replication_origin_session_setup('elsewhere')`, `begin`, `select pg_replication_origin_xact_setup('0/ABCDEF', '2026-10-01 12:00:00+00')`,
			`insert into notes values (1, 'from elsewhere')`, `commit`, `select pg_replication_origin_session_reset()`, `insert into notes values (2, 'from here')`),
		shows: letters("BORIC BIC"),
	},
	{
		name: "messages", about: "own transactional messages count, others don't; those that aren't transactional come at once, also out of an aborted transaction",
		steps: byA(`select pg_logical_emit_message(false, 'other', 'outside')`, `select pg_logical_emit_message(true, 'cdc_relay', 'a transaction of its own')`,
			`begin`, `insert into notes values (1, 'first')`, `select pg_logical_emit_message(true, 'cdc_relay.contract', '2')`, `select pg_logical_emit_message(true, 'other', 'foreign')`,
			`select pg_logical_emit_message(true, 'cdc_relay_not', 'foreign')`, `select pg_logical_emit_message(false, 'cdc_relay', 'at once')`, `insert into notes values (2, 'second')`, `commit`,
			`begin`, `insert into notes values (3, 'aborted')`, `select pg_logical_emit_message(false, 'cdc_relay', 'at once, of an aborted transaction')`,
			`select pg_logical_emit_message(true, 'cdc_relay', 'aborted')`, `rollback`,
			`begin`, `savepoint s`, `select pg_logical_emit_message(true, 'cdc_relay', 'rolled back')`, `rollback to s`, `select pg_logical_emit_message(true, 'cdc_relay', '\x00ff'::bytea)`,
			`select pg_logical_emit_message(true, '', '')`, `commit`),
		shows: letters("M BMC M BRIMMMIC M BMMC"),
	},
	{
		name: "prepared", about: "a prepared transaction comes when it is committed, behind those that committed in between; one that is rolled back never comes",
		steps: byA(`begin`, `insert into notes values (1, 'prepared')`, `prepare transaction 'decode_one'`, `begin`, `insert into notes values (2, 'prepared, rolled back')`,
			`prepare transaction 'decode_two'`, `insert into notes values (3, 'in between')`, `commit prepared 'decode_one'`, `rollback prepared 'decode_two'`, `insert into notes values (4, 'after')`),
		shows: letters("BRIC BIC BIC"),
	},
	{
		name: "filtered", since: 15, about: "a row filter and a column list: what they leave out is not sent, so it does not count",
		setup: `create table notes (id bigint primary key, note text, secret text); create publication pub for table notes (id, note) where (note is distinct from 'hidden') with (publish = 'insert');`,
		steps: byA(`insert into notes values (1, 'shown', 's'), (2, 'hidden', 's'), (3, 'shown', 's')`, `insert into notes values (4, 'hidden', 's')`, `insert into notes values (5, null, null)`),
		shows: letters("BRIIC BIC"),
	},
	{
		name: "schemas", about: "tables of one name in two schemas", setup: notes + `create schema audit; create table audit.notes (like notes); create publication pub for table notes, audit.notes with (publish = 'insert');`,
		steps: byA(`begin`, `insert into notes values (1, 'public')`, `insert into audit.notes values (2, 'audit')`, `insert into notes values (3, 'public')`, `commit`,
			`create schema attic`, `alter table audit.notes set schema attic`, `insert into attic.notes values (4, 'moved')`),
		shows: letters("BRIRIIC BRIC"),
	},
	{
		name: "names", about: "quoted and non-ASCII names", setup: `create schema "Größe"; create table "Größe"."a.""b"" ключ" ("Id" int, "col umn" text);
			create publication pub for table "Größe"."a.""b"" ключ" with (publish = 'insert');`,
		steps: byA(`insert into "Größe"."a.""b"" ключ" values (1, 'x')`), shows: letters("BRIC"),
	},
	{
		name: "odd-tables", about: "tables without columns, with only dropped ones, and with a generated one that isn't sent",
		setup: `create table nothing (); create table dropped (x int); alter table dropped drop x; create table generated (id int, twice int generated always as (id * 2) stored, note text);
			create publication pub for table nothing, dropped, generated with (publish = 'insert');`,
		steps: byA(`begin`, `insert into nothing default values`, `insert into dropped default values`, `insert into generated values (1, default, 'x')`, `commit`),
		shows: letters("BRIRIRIC"),
	},
	{
		name: "keepalives", since: 15, about: "the server asks for a reply inside a transaction that takes long to decode, and outside",
		// Nearly all of its time the server filters, between the first and the last row.
		setup: notes + `create publication pub for table notes where (id < 10 or length(repeat(note, 5000)) < 0) with (publish = 'insert');`, overdue: true,
		steps: byA(`insert into notes values (1, 'before')`, `begin`, `insert into notes values (2, 'first')`,
			`insert into notes select i, 'slow to filter' from generate_series(10, 3000) i`, `insert into notes values (3, 'last')`, `commit`, `insert into notes values (4, 'after')`),
		shows: func(t *testing.T, got []decode.Change) {
			if !keepaliveInside(got) || len(of(got, decode.Idle)) == 0 {
				t.Error("no keepalive inside a transaction, or none outside")
			}
		},
	},
}

func keepaliveInside(changes []decode.Change) bool {
	for _, c := range changes {
		if c.Kind == decode.None && c.Op == 0 {
			return true
		}
	}
	return false
}
