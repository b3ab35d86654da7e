package oracle

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// ReadTopic reads all of a topic, from offset 0 to its end as of the call, uncommitted
// records included. Records come by partition and, within one, by offset. A topic whose
// beginning was already deleted is an error: no verdict could be true.
func ReadTopic(ctx context.Context, brokers []string, topic string) ([]Record, error) {
	cl, err := kgo.NewClient(
		kgo.SeedBrokers(brokers...),
		kgo.KeepControlRecords(), // else an end made of control records would never be reached
		kgo.FetchMaxPartitionBytes(4<<20),
	)
	if err != nil {
		return nil, fmt.Errorf("connect to Kafka to read topic %q: %w", topic, err)
	}
	defer cl.Close()
	ends, err := endOffsets(ctx, cl, topic)
	if err != nil {
		return nil, err
	}
	from := make(map[int32]kgo.Offset)
	open := 0
	for p, end := range ends {
		if end > 0 {
			from[int32(p)] = kgo.NewOffset().At(0)
			open++
		}
	}
	if open == 0 {
		return nil, nil
	}
	cl.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: from})

	all, parts := places(ends)
	for open > 0 {
		fs := cl.PollFetches(ctx)
		if errs := fs.Errors(); len(errs) > 0 {
			return nil, fmt.Errorf("read topic %q partition %d: %w", topic, errs[0].Partition, errs[0].Err)
		}
		fs.EachRecord(func(r *kgo.Record) {
			if r.Offset >= ends[r.Partition] {
				return
			}
			if !r.Attrs.IsControl() {
				parts[r.Partition] = append(parts[r.Partition], digest(r))
			}
			if r.Offset == ends[r.Partition]-1 {
				open--
			}
		})
	}
	return closeUp(all, parts), nil
}

// places returns one array for all records, and pieces of it for those of each partition, so
// that there is never a second copy of them.
func places(ends []int64) (all []Record, parts [][]Record) {
	var n int64
	for _, end := range ends {
		n += end
	}
	all = make([]Record, n)
	rest := all
	for _, end := range ends {
		parts = append(parts, rest[:0:end])
		rest = rest[end:]
	}
	return all, parts
}

// closeUp moves the parts of an array together: some offsets hold no record.
func closeUp(all []Record, parts [][]Record) []Record {
	n := 0
	for _, p := range parts {
		n += copy(all[n:], p)
	}
	return all[:n]
}

// endOffsets returns the end of each partition, by number.
func endOffsets(ctx context.Context, cl *kgo.Client, topic string) ([]int64, error) {
	adm := kadm.NewClient(cl)
	starts, err := adm.ListStartOffsets(ctx, topic)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("list the start offsets of topic %q: %w", topic, err)
	}
	ends, err := adm.ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("list the end offsets of topic %q: %w", topic, err)
	}
	out := make([]int64, len(ends[topic]))
	if len(out) == 0 {
		return nil, fmt.Errorf("topic %q does not exist or has no partitions", topic)
	}
	for p := range out {
		start, end := starts[topic][int32(p)], ends[topic][int32(p)]
		if start.Offset != 0 {
			return nil, fmt.Errorf("topic %q partition %d begins at offset %d: its first records were deleted, so it can't be judged",
				topic, p, start.Offset)
		}
		out[p] = end.Offset
	}
	return out, nil
}

// digest keeps what the oracle needs of a record.
func digest(r *kgo.Record) Record {
	out := Record{
		Partition: r.Partition,
		Offset:    r.Offset,
		Timestamp: r.Timestamp.UnixMilli(),
		Key:       Sum(r.Key),
		Value:     Sum(r.Value),
	}
	out.headers(r.Headers)
	return out
}
