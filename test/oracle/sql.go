package oracle

import (
	"fmt"
	"strings"
)

// query computes everything in SQL, step by step: what the caller names, the time in parts
// that don't overflow or round, then the digests. The partition is the first eight bytes of
// the SHA-256 of the key (of the ID where it is NULL), as an unsigned number, modulo the count:
// bit(64)::bigint is signed, so what is negative needs 2^64 added, which only numeric holds.
const query = `
with e as (
	select {id} as id, ({key})::text as key, ({order})::bigint as ord, ({value})::text as value, ({type})::text as type,
		({ordering})::text as ordering, ({number})::bigint as number, ({headers})::json as headers,
		({created})::timestamptz as created, {xmin} as xid, pg_xact_commit_timestamp({committed}) as committed
	from {table} {where}
), m as (
	select *, case when isfinite(created) then
			((created at time zone 'UTC')::date - date '1970-01-01') * 86400000::bigint
			+ extract(hour from created at time zone 'UTC')::bigint * 3600000
			+ extract(minute from created at time zone 'UTC')::bigint * 60000
			+ floor(extract(milliseconds from created))::bigint
		end as ms
	from e
), h as (
	select *, {shard} as shard, {keysum} as keysum, {valuesum} as valuesum, {promised} as promised
	from m
)
select id, coalesce(key, id), ord, keysum, valuesum,
	case when $1::int = 0 then -1
	else mod(case when shard < 0 then shard::numeric + 18446744073709551616 else shard::numeric end, $1::int)::int end,
	promised, {timestamp}, case when xid::text::bigint < {firstxid} then 0 else coalesce(xid::text::bigint, 0) end
from h`

// timestamp is created_at where it lies within 24 hours of the commit, else that of the commit.
// Where that isn't known, it is between 24 hours ago and now.
const timestamp = `
	case when committed is not null and (created is null or not isfinite(created)
			or created not between committed - interval '24 hours' and committed + interval '24 hours')
		then floor(extract(epoch from committed) * 1000)::bigint
	when committed is not null or created between now() - interval '24 hours' and now() then ms
	else 0 end`

// firstXID is the first one of a transaction (FirstNormalTransactionId in src/include/access/transam.h).
// Rows that came over from another server have one that tells nothing.
const firstXID = "3"

func (q TableQuery) where() string {
	if q.Where == "" {
		return ""
	}
	return "where " + q.Where
}

// sql is the query, for a server that has the times of commits or hasn't.
func (q TableQuery) sql(tracked bool) string {
	def := func(given, otherwise string) string {
		switch given {
		case "":
			return otherwise
		case Skip:
			return "null"
		}
		return given
	}
	number, xmin, committed, when := "null", "xmin", "xmin", timestamp
	if q.Ordering == "" {
		number = "id"
	}
	if q.Updated {
		xmin = "null::xid"
	}
	if q.Updated || !tracked {
		committed = "null::xid"
	}
	if q.Created == Skip {
		when = "0"
	}
	return strings.NewReplacer(
		"{id}", def(q.ID, "event_type || ':' || coalesce(entity_id, '') || ':' || id::text"),
		"{key}", def(q.Key, "entity_id"),
		"{order}", def(q.Order, "id"),
		"{value}", def(q.Value, "payload::text"),
		"{type}", def(q.Type, "event_type"),
		"{ordering}", def(q.Ordering, "null"),
		"{number}", number,
		"{headers}", def(q.Headers, "null"),
		"{created}", def(q.Created, "created_at"),
		"{xmin}", xmin, "{firstxid}", firstXID, "{committed}", committed,
		"{table}", q.Table, "{where}", q.where(),
		"{shard}", sum(utf8("coalesce(key, id)")), "{keysum}", sum(utf8("key")), "{valuesum}", sum(utf8("value")),
		"{promised}", q.promised(), "{timestamp}", when,
	).Replace(query)
}

// promised is the digest of all headers that the table can tell, as headerSum makes it.
func (q TableQuery) promised() string {
	if q.Headers == Skip {
		return "null::bigint"
	}
	ordering := part("ordering")
	switch q.Ordering {
	case "":
		ordering = part(padded("ms", 13) + " || ':' || " + padded("number", 20))
	case Skip:
		ordering = length(positionLength)
	}
	return sum(strings.Join([]string{
		part("'event_id'"), part("id"),
		part("'event_type'"), part("type"),
		part("'dedupe_key'"), part("id"),
		part("'ordering_key'"), ordering,
		part("'position'"), length(positionLength),
		`coalesce((select string_agg(` +
			part(`case when x.name in ('event_id', 'event_type', 'dedupe_key', 'ordering_key', 'position', 'replayed', 'source')
				then 'row-' || x.name else x.name end`) +
			` || coalesce(` + part("x.value") + `, ` + length(nullLength) + `), '' order by x.no)
			from json_each_text(headers) with ordinality as x(name, value, no)), '')`,
	}, " || "))
}

func utf8(text string) string { return "convert_to(" + text + ", 'UTF8')" }

func sum(bytes string) string {
	return "('x' || encode(substr(sha256(" + bytes + "), 1, 8), 'hex'))::bit(64)::bigint"
}

func length(n int) string { return fmt.Sprintf("int8send(%d)", n) }

func part(text string) string {
	return "int8send(octet_length(" + utf8(text) + ")) || " + utf8(text)
}

// padded prints a number as printf does for %0{width}d.
func padded(n string, width int) string {
	return fmt.Sprintf("(case when %[1]s < 0 then '-' else '' end || repeat('0', %[2]d - length(%[1]s::text)) || ltrim(%[1]s::text, '-'))", n, width)
}
