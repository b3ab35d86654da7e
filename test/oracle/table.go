package oracle

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// TableQuery says where the events are and how they are identified. All texts are SQL of a
// trusted caller. What is empty takes the value of the reference outbox table.
type TableQuery struct {
	Table string // quoted and qualified as needed
	Where string // only these rows; empty: all

	ID    string // text, unique; by default event_type:entity_id:id
	Key   string // text or NULL, the partition key; by default entity_id
	Order string // bigint, the commit order of the events of one key; by default id
	Value string // text or NULL, the record's value; by default payload::text. "-": not compared

	// Partitions is the topic's count. 0: not computed; a key's events must then only be
	// together.
	Partitions int32
}

// query computes everything in SQL. The partition is the first eight bytes of the SHA-256
// of the key (of the ID where it is NULL), as an unsigned number, modulo the count:
// bit(64)::bigint is signed, so what is negative needs 2^64 added, which only numeric holds.
const query = `
with e as (
	select %[1]s as id, (%[2]s)::text as key, (%[3]s)::bigint as ord, (%[4]s)::text as value
	from %[5]s %[6]s
), h as (
	select *,
		('x' || encode(substr(sha256(convert_to(coalesce(key, id), 'UTF8')), 1, 8), 'hex'))::bit(64)::bigint as shard,
		('x' || encode(substr(sha256(convert_to(key, 'UTF8')), 1, 8), 'hex'))::bit(64)::bigint as keysum,
		('x' || encode(substr(sha256(convert_to(value, 'UTF8')), 1, 8), 'hex'))::bit(64)::bigint as valuesum
	from e
)
select id, coalesce(key, id), ord, keysum, valuesum,
	case when $1::int = 0 then -1
	else mod(case when shard < 0 then shard::numeric + 18446744073709551616 else shard::numeric end, $1::int)::int end
from h`

// FromTable reads from an outbox table what should be in its topic.
func FromTable(ctx context.Context, conn *pgx.Conn, q TableQuery) ([]Expected, error) {
	def := func(s, d string) string {
		if s == "" {
			return d
		}
		return s
	}
	where := ""
	if q.Where != "" {
		where = "where " + q.Where
	}
	value := def(q.Value, "payload::text")
	compare := value != "-"
	if !compare {
		value = "null"
	}
	sql := fmt.Sprintf(query,
		def(q.ID, "event_type || ':' || coalesce(entity_id, '') || ':' || id::text"),
		def(q.Key, "entity_id"), def(q.Order, "id"), value, q.Table, where)
	rows, err := conn.Query(ctx, sql, q.Partitions)
	if err != nil {
		return nil, fmt.Errorf("read the expected events from %s: %w", q.Table, err)
	}
	keys := make(map[string]string) // one copy of each key
	var out []Expected
	var (
		e                Expected
		key              string
		keySum, valueSum *int64
	)
	_, err = pgx.ForEachRow(rows, []any{&e.ID, &key, &e.Order, &keySum, &valueSum, &e.Partition}, func() error {
		k, ok := keys[key]
		if !ok {
			keys[key], k = key, key
		}
		e.Key, e.RecordKey, e.Value = k, fromSQL(keySum), Any
		if compare {
			e.Value = fromSQL(valueSum)
		}
		out = append(out, e)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the expected events from %s: %w", q.Table, err)
	}
	return out, nil
}

func fromSQL(sum *int64) Digest {
	if sum == nil {
		return Null
	}
	return Digest(uint64(*sum))
}
