package oracle

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Skip in a field of TableQuery says that what it would tell is not compared.
const Skip = "-"

// TableQuery says where the events are and how they are identified. All texts are SQL of a
// trusted caller. What is empty takes the value of the reference outbox table.
type TableQuery struct {
	Table string // quoted and qualified as needed
	Where string // only these rows; empty: all

	ID  string // text, unique; by default event_type:entity_id:id
	Key string // text or NULL, the partition key; by default entity_id
	// Order is bigint, the commit order of the events of one key; by default id. That is the
	// commit order where the transactions of a key don't overlap between drawing the id and
	// committing: where one connection writes a key, or each writer locks the key before it
	// inserts. Elsewhere Skip it: then the position counts as the order, and what is proven is
	// that the records of a key don't contradict their own positions.
	Order string
	Value string // text or NULL, the record's value; by default payload::text. Or Skip

	// Type, Ordering and Headers tell the headers of the record. Type is text, by default
	// event_type. Ordering is text, by default made of created_at and id; Skip it where the
	// position is the ordering key. Headers is json or NULL, the row's own, by default NULL;
	// Skip it to compare no headers but the position.
	Type     string
	Ordering string
	Headers  string
	// Created is timestamptz or NULL, by default created_at. Skip it to compare no timestamps;
	// then Ordering can't be the default.
	Created string

	// Updated says that the rows may not be as they were inserted (updated, restored from a
	// dump), or that the table is a view: then xmin doesn't tell the transaction of an event.
	Updated bool

	// Partitions is the topic's count. 0: not computed; a key's events must then only be
	// together.
	Partitions int32
}

// FromTable reads from an outbox table what should be in its topic. The time of a commit is
// known where the server has track_commit_timestamp. Elsewhere rows must have been committed
// within the last 24 hours, and of those timestamps are compared that this tells.
func FromTable(ctx context.Context, conn *pgx.Conn, q TableQuery) ([]Expected, error) {
	out, err := fromTable(ctx, conn, q)
	if err != nil {
		return nil, fmt.Errorf("read the expected events from %s: %w", q.Table, err)
	}
	return out, nil
}

func fromTable(ctx context.Context, conn *pgx.Conn, q TableQuery) ([]Expected, error) {
	var tracked bool
	err := conn.QueryRow(ctx, "select current_setting('track_commit_timestamp')::bool").Scan(&tracked)
	if err != nil {
		return nil, err
	}
	var count int // only a hint: rows may come or go
	if err := conn.QueryRow(ctx, "select count(*) from "+q.Table+" "+q.where()).Scan(&count); err != nil {
		return nil, err
	}
	rows, err := conn.Query(ctx, q.sql(tracked), q.Partitions)
	if err != nil {
		return nil, err
	}
	keys := make(map[string]string) // one copy of each key
	out := make([]Expected, 0, count)
	var (
		e                                 Expected
		key                               string
		keySum, valueSum, promised, order *int64
	)
	to := []any{&e.ID, &key, &order, &keySum, &valueSum, &e.Partition, &promised, &e.Timestamp, &e.Txn}
	_, err = pgx.ForEachRow(rows, to, func() error {
		k, ok := keys[key]
		if !ok {
			keys[key], k = key, key
		}
		e.Key, e.Order, e.RecordKey, e.Value, e.Promised = k, ByPosition, fromSQL(keySum), Any, Any
		if order != nil {
			e.Order = *order
		}
		if q.Value != Skip {
			e.Value = fromSQL(valueSum)
		}
		if promised != nil {
			e.Promised = fromSQL(promised)
		}
		out = append(out, e)
		return nil
	})
	return out, err
}

func fromSQL(sum *int64) Digest {
	if sum == nil {
		return Null
	}
	return Digest(uint64(*sum))
}
