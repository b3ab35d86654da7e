package demo

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/maphash"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// wanted is what a row of the outbox says about its record.
type wanted struct {
	partition int32
	version   int // of the order, which counts its committed changes
	sum       uint64
	seen      *seen
}

// seen is the first record of an event.
type seen struct {
	partition int32
	sum       uint64 // of everything in the record
}

// judge compares records with rows, in the order of the topic.
type judge struct {
	seed     maphash.Seed
	rows     map[int64]*wanted
	newest   map[string]int // the greatest version that was seen, by order
	entities []map[string]struct{}
	v        Verdict
}

// verify reads the table and the topic, the latter from its first offset to its end, and
// compares them.
func verify(ctx context.Context, conn *pgx.Conn, brokers []string, topic string, partitions int32) (Verdict, error) {
	j := newJudge(partitions)
	if err := j.table(ctx, conn); err != nil {
		return Verdict{}, err
	}
	if err := read(ctx, brokers, topic, j.record); err != nil {
		return Verdict{}, err
	}
	return j.verdict(), nil
}

func newJudge(partitions int32) *judge {
	j := &judge{seed: maphash.MakeSeed(), rows: map[int64]*wanted{}, newest: map[string]int{}}
	for p := range partitions {
		j.v.Partitions = append(j.v.Partitions, Partition{Partition: p})
		j.entities = append(j.entities, map[string]struct{}{})
	}
	return j
}

// table reads the rows of the outbox.
func (j *judge) table(ctx context.Context, conn *pgx.Conn) error {
	rows, err := conn.Query(ctx, `SELECT id, entity_id, event_type, payload::text, ordering_key FROM outbox_events`)
	if err != nil {
		return fmt.Errorf("read the outbox: %w", err)
	}
	var id int64
	var entity, event, body, ordering string
	_, err = pgx.ForEachRow(rows, []any{&id, &entity, &event, &body, &ordering}, func() error {
		return j.row(id, entity, event, body, ordering)
	})
	if err != nil {
		return fmt.Errorf("read the outbox: %w", err)
	}
	return nil
}

func (j *judge) row(id int64, entity, event, body, ordering string) error {
	var p payload
	if err := json.Unmarshal([]byte(body), &p); err != nil {
		return fmt.Errorf("the payload of event %d: %w", id, err)
	}
	dedupe := fmt.Sprintf("%s:%s:%d", event, entity, id)
	j.rows[id] = &wanted{
		partition: partition(entity, len(j.v.Partitions)),
		version:   p.Version,
		sum:       j.sum(entity, body, event, dedupe, ordering),
	}
	j.v.Events++
	if p.Version == 1 {
		j.v.Orders++
	}
	return nil
}

// partition is the promise of the default hash: the first 8 bytes of the key's SHA-256 as a
// number, modulo the count.
func partition(key string, count int) int32 {
	h := sha256.Sum256([]byte(key))
	return int32(binary.BigEndian.Uint64(h[:8]) % uint64(count))
}

// record judges the next record of a partition.
func (j *judge) record(r *kgo.Record) {
	j.v.Records++
	entity := string(r.Key)
	p := &j.v.Partitions[r.Partition]
	j.entities[r.Partition][entity] = struct{}{}
	id, err := eventID(r)
	w := j.rows[id]
	if err != nil || w == nil {
		j.v.Unknown++
		return
	}
	if w.sum != j.sum(entity, string(r.Value), header(r, "event_type"), header(r, "dedupe_key"), header(r, "ordering_key")) {
		j.v.Changed++
	}
	whole := j.whole(r)
	if w.seen != nil {
		j.v.Repeated++
		p.Repeats++
		switch {
		case w.seen.partition != r.Partition:
			j.v.Moved++
		case w.seen.sum != whole:
			j.v.Changed++
		}
		return
	}
	w.seen = &seen{partition: r.Partition, sum: whole}
	p.Events++
	if w.partition != r.Partition {
		j.v.Moved++
	}
	if w.version < j.newest[entity] {
		j.v.OutOfOrder++
	}
	j.newest[entity] = max(j.newest[entity], w.version)
}

func (j *judge) verdict() Verdict {
	for _, w := range j.rows {
		if w.seen == nil {
			j.v.Missing++
		}
	}
	for p := range j.v.Partitions {
		j.v.Partitions[p].Entities = len(j.entities[p])
	}
	return j.v
}

// sum is a hash of parts.
func (j *judge) sum(parts ...string) uint64 {
	var h maphash.Hash
	h.SetSeed(j.seed)
	for _, p := range parts {
		_ = binary.Write(&h, binary.BigEndian, uint64(len(p))) // a hash takes everything
		h.WriteString(p)
	}
	return h.Sum64()
}

// whole is a hash of a record: key, value, timestamp and all headers. A repeat must equal
// the first publication in each.
func (j *judge) whole(r *kgo.Record) uint64 {
	parts := []string{string(r.Key), string(r.Value), r.Timestamp.String()}
	for _, h := range r.Headers {
		parts = append(parts, h.Key, string(h.Value))
	}
	return j.sum(parts...)
}

// read gives the records of each partition, in its order, up to the topic's end as of now.
func read(ctx context.Context, brokers []string, topic string, do func(*kgo.Record)) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return fmt.Errorf("read topic %s: %w", topic, err)
	}
	defer client.Close()
	ends, err := kadm.NewClient(client).ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return fmt.Errorf("read the end of topic %s: %w", topic, err)
	}
	left := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	for len(left) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("read topic %s: %w", topic, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			end, ok := left[r.Partition]
			if !ok {
				return
			}
			do(r)
			if r.Offset+1 >= end {
				delete(left, r.Partition)
			}
		})
	}
	return nil
}
