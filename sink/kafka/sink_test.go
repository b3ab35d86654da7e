package kafka

import (
	"context"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// endOffsets asks for the log ends of a topic.
func endOffsets(ctx context.Context, cl *kgo.Client, topic string) (map[int32]int64, error) {
	meta := kmsg.NewPtrMetadataRequest()
	mt := kmsg.NewMetadataRequestTopic()
	mt.Topic = kmsg.StringPtr(topic)
	meta.Topics = append(meta.Topics, mt)
	mres, err := meta.RequestWith(ctx, cl)
	if err != nil {
		return nil, err
	}
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = topic
	for _, p := range mres.Topics[0].Partitions {
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Partition = p.Partition
		rp.Timestamp = -1
		rp.CurrentLeaderEpoch = -1
		rt.Partitions = append(rt.Partitions, rp)
	}
	req.Topics = append(req.Topics, rt)
	ends := make(map[int32]int64)
	for _, sh := range cl.RequestSharded(ctx, req) {
		if sh.Err != nil {
			return nil, sh.Err
		}
		for _, t := range sh.Resp.(*kmsg.ListOffsetsResponse).Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode != 0 {
					return nil, fmt.Errorf("list offsets: code %d", p.ErrorCode)
				}
				ends[p.Partition] = p.Offset
			}
		}
	}
	return ends, nil
}

// checkLog checks that the topic holds records 0..n-1 of the test, each once, in order in
// its partition, but those skipped.
func checkLog(t testing.TB, ctx context.Context, addrs []string, topic string, n int, skip func(int) bool) {
	t.Helper()
	seen := make([]bool, n)
	for p, rs := range readAll(t, ctx, addrs, topic) {
		last := -1
		for _, r := range rs {
			var i int
			if _, err := fmt.Sscanf(string(r.Value), "value-%d", &i); err != nil {
				t.Fatalf("partition %d: strange value %q", p, r.Value)
			}
			if seen[i] {
				t.Errorf("partition %d: record %d repeated", p, i)
			}
			if i < last {
				t.Errorf("partition %d: record %d behind %d", p, i, last)
			}
			seen[i] = true
			last = i
		}
	}
	missing := 0
	for i, ok := range seen {
		if !ok && (skip == nil || !skip(i)) {
			if missing == 0 {
				t.Errorf("record %d is missing", i)
			}
			missing++
		}
		if ok && skip != nil && skip(i) {
			t.Errorf("record %d is in the log", i)
		}
	}
	if missing > 1 {
		t.Errorf("%d records are missing", missing)
	}
}

func TestPublish(t *testing.T) {
	for _, codec := range []string{"none", "lz4", "snappy", "zstd"} {
		t.Run(codec, func(t *testing.T) {
			ctx := testContext(t)
			c := newCluster(t, kfake.NumBrokers(3), kfake.SeedTopics(12, "orders"))
			cfg := testConfig(t, c)
			cfg.Compression = codec
			h := newRecorder(t)
			s := open(t, cfg, h)
			const n = 20000
			for i := range n {
				produce(t, s, record("orders", int32(i*7%12), i))
			}
			flush(t, ctx, s)
			if h.acked != n {
				t.Errorf("%d acks, want %d", h.acked, n)
			}
			left, err := s.Close(ctx)
			if left != 0 || err != nil {
				t.Errorf("close: %d unsettled, %v", left, err)
			}
			if st := s.Stats(); st.Retries != 0 || st.Reconnects != 0 {
				t.Errorf("without a fault: %+v", st)
			}
			checkLog(t, ctx, c.ListenAddrs(), "orders", n, nil)
		})
	}
}
