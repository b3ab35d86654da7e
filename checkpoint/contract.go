package checkpoint

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/shard"
	"github.com/cdc-relay/cdc-relay/wal"
)

const contractColumns = `topic, no, lineage, from_lsn::text, partition_count, hash, keys, ordering_key, mapping::text, value_format`

// PinContract writes a contract down where its topic has none of its number yet, and returns the
// one that is there: its own, or that of whoever was first. It is durable on return, by the
// server's synchronous_commit, so records may rest on it.
func (s *Store) PinContract(ctx context.Context, c shard.Contract) (shard.Contract, error) {
	var lineage *int
	var from, mapping *string
	if !c.Pending {
		no, lsn := int(c.Lineage), c.From.String()
		lineage, from = &no, &lsn
	}
	if len(c.Mapping) > 0 {
		text := string(c.Mapping)
		mapping = &text
	}
	var got shard.Contract
	err := s.Do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		// The update changes nothing. It makes this commit wait for what an earlier one, that was
		// cut off, may not have waited for: a contract that is read must be as durable as one that
		// is written.
		rows, err := conn.Query(ctx, `
			insert into `+s.schema+`.contract as c (topic, no, lineage, from_lsn, partition_count, hash, keys, ordering_key, mapping, value_format)
			values ($1, $2, $3, $4::text::pg_lsn, $5, $6, $7, $8, $9::text::jsonb, $10)
			on conflict (topic, no) do update set topic = c.topic
			returning `+contractColumns,
			c.Topic, c.No, lineage, from, c.PartitionCount, string(c.Hash), c.Keys, c.OrderingKey, mapping, c.ValueFormat)
		if err != nil {
			return err
		}
		got, err = pgx.CollectExactlyOneRow(rows, scanContract)
		return err
	})
	if err != nil {
		return shard.Contract{}, s.explain(fmt.Sprintf("pin contract %d of topic %q for", c.No, c.Topic), "contract", err)
	}
	return got, nil
}

// Contracts returns all contracts of a topic.
func (s *Store) Contracts(ctx context.Context, topic string) (shard.Contracts, error) {
	var cs shard.Contracts
	err := s.Do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, `select `+contractColumns+` from `+s.schema+`.contract where topic = $1 order by no`, topic)
		if err != nil {
			return err
		}
		cs, err = pgx.CollectRows(rows, scanContract)
		return err
	})
	if err != nil {
		return nil, s.explain(fmt.Sprintf("read the contracts of topic %q for", topic), "contract", err)
	}
	return cs, nil
}

func scanContract(row pgx.CollectableRow) (c shard.Contract, err error) {
	var lineage *uint16
	var from *wal.LSN
	var mapping *string
	err = row.Scan(&c.Topic, &c.No, &lineage, &from, &c.PartitionCount, (*string)(&c.Hash), &c.Keys, &c.OrderingKey, &mapping, &c.ValueFormat)
	if c.Pending = lineage == nil || from == nil; !c.Pending {
		c.Lineage, c.From = *lineage, *from
	}
	if mapping != nil {
		c.Mapping = []byte(*mapping)
	}
	return c, err
}
