package oracle_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-relay/cdc-relay/test/oracle"
)

func TestReadTopicWhole(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	brokers := broker(t)
	if got, err := oracle.ReadTopic(ctx, brokers, "t"); err != nil || len(got) != 0 {
		t.Fatalf("an empty topic: %d records, %v", len(got), err)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	const n = 20_000 // more than one fetch
	var recs []*kgo.Record
	for i := range n {
		// Partition 1 stays empty.
		recs = append(recs, &kgo.Record{Topic: "t", Partition: int32(i%2) * 2, Value: make([]byte, 500)})
	}
	if err := cl.ProduceSync(ctx, recs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	got, err := oracle.ReadTopic(ctx, brokers, "t")
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != n {
		t.Fatalf("%d records, want %d", len(got), n)
	}
	for i, r := range got {
		if p, off := int32(i/(n/2))*2, int64(i%(n/2)); r.Partition != p || r.Offset != off {
			t.Fatalf("record %d is at partition %d offset %d, want %d and %d", i, r.Partition, r.Offset, p, off)
		}
	}
}

// An oracle that can't see the beginning, or the topic at all, must not say "clean".
func TestReadTopicRefuses(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, "t"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	recs, _ := plan()
	write(ctx, t, c.ListenAddrs(), recs)
	if err := c.DeleteRecords("t", 1, 3); err != nil {
		t.Fatal(err)
	}
	for topic, says := range map[string]string{"t": "begins at offset 3", "absent": "absent"} {
		if _, err := oracle.ReadTopic(ctx, c.ListenAddrs(), topic); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("topic %q: error %v, want one that says %q", topic, err, says)
		}
	}
	short, stop := context.WithTimeout(ctx, 300*time.Millisecond)
	defer stop()
	if _, err := oracle.ReadTopic(short, []string{"127.0.0.1:1"}, "t"); err == nil {
		t.Error("no broker there, and no error")
	}
}

func TestDigestsTellNullFromEmpty(t *testing.T) {
	if oracle.Sum(nil) != oracle.Null || oracle.Sum([]byte{}) == oracle.Null || oracle.Sum([]byte{}) == oracle.Any {
		t.Error("null and empty look the same")
	}
}

// The marks of transactions take offsets, and are no records.
func TestReadTopicAroundControlRecords(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	brokers := broker(t)
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID("x"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	const rounds = 3
	for n := range rounds {
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for p := range int32(partitions) {
			if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "t", Partition: p, Key: []byte{byte(n)}}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		if err := cl.EndTransaction(ctx, kgo.TryCommit); err != nil {
			t.Fatal(err)
		}
	}
	got, err := oracle.ReadTopic(ctx, brokers, "t")
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != rounds*partitions {
		t.Fatalf("%d records, want %d", len(got), rounds*partitions)
	}
	for i, r := range got {
		n := i % rounds
		if r.Partition != int32(i/rounds) || r.Offset != int64(2*n) || r.Key != oracle.Sum([]byte{byte(n)}) {
			t.Errorf("record %d: %+v", i, r)
		}
	}
}
