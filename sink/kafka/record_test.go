package kafka

import (
	"bytes"
	"fmt"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-relay/cdc-relay/decode/shape"
	"github.com/cdc-relay/cdc-relay/sink"
)

// same says what differs between a record as it was produced and as a client of another
// make reads it; nil and empty differ.
func same(want *sink.Record, got *kgo.Record) string {
	bytesSame := func(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }
	switch {
	case !bytesSame(want.Key, got.Key):
		return fmt.Sprintf("key %#v, want %#v", got.Key, want.Key)
	case !bytesSame(want.Value, got.Value):
		return fmt.Sprintf("value %#v, want %#v", got.Value, want.Value)
	case got.Timestamp.UnixMilli() != want.TimestampMs:
		return fmt.Sprintf("timestamp %d, want %d", got.Timestamp.UnixMilli(), want.TimestampMs)
	case len(got.Headers) != len(want.Headers):
		return fmt.Sprintf("%d headers, want %d", len(got.Headers), len(want.Headers))
	}
	for i, h := range want.Headers {
		if got.Headers[i].Key != h.Key || !bytesSame(got.Headers[i].Value, h.Value) {
			return fmt.Sprintf("header %d is %+v, want %+v", i, got.Headers[i], h)
		}
	}
	return ""
}

// anyRecord is a record with every kind of emptiness.
func anyRecord(dice *rand.Rand, n int) *sink.Record {
	field := func(most int) []byte {
		switch dice.IntN(5) {
		case 0:
			return nil
		case 1:
			return []byte{}
		}
		b := make([]byte, dice.IntN(most))
		for i := range b {
			b[i] = byte(dice.Uint32())
		}
		return b
	}
	r := record("orders", 0, n)
	r.Key, r.Value, r.Headers = field(200), field(3000), nil
	r.TimestampMs = time.Now().UnixMilli() - dice.Int64N(1e9)
	for range dice.IntN(6) {
		r.Headers = append(r.Headers, shape.Header{Key: string(field(100)), Value: field(200)})
	}
	return r
}

// TestRecordsArriveAsTheyAre: what is read is what was produced, in each field, and no
// record is larger than it was taken for, nor much smaller.
func TestRecordsArriveAsTheyAre(t *testing.T) {
	ctx := testContext(t)
	c := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"))
	cfg := testConfig(t, c)
	cfg.Compression = "none"
	s := open(t, cfg, newRecorder(t))
	dice := rand.New(rand.NewPCG(1, 2))
	var want []*sink.Record
	for i := range 3000 {
		want = append(want, anyRecord(dice, i))
	}
	sized := 0
	onProduce(c, func(req *kmsg.ProduceRequest) (kmsg.Response, error, bool) {
		for _, r := range records(t, req.Topics[0].Partitions[0].Records) {
			got, taken := varintSize(len(r))+len(r), recordSize(want[sized])
			if got > taken || taken > got+recordOverhead {
				t.Errorf("record of %d bytes is taken for %d", got, taken)
			}
			sized++
		}
		return nil, nil, false
	})
	produce(t, s, want...)
	flush(t, ctx, s)
	if sized != len(want) {
		t.Errorf("%d records seen", sized)
	}
	for i, r := range readAll(t, ctx, c.ListenAddrs(), "orders")[0] {
		if r.Offset != int64(i) {
			t.Fatalf("record %d has offset %d", i, r.Offset)
		}
		if diff := same(want[i], r); diff != "" {
			t.Fatalf("record %d: %s", i, diff)
		}
	}
}

// TestBuildReuse: a pooled encoder carries nothing over from the batch before.
func TestBuildReuse(t *testing.T) {
	dice := rand.New(rand.NewPCG(5, 6))
	w := new(wire)
	for range 200 {
		var rs []*sink.Record
		first, last := int64(0), int64(0)
		for i := range 1 + dice.IntN(50) {
			r := anyRecord(dice, i)
			rs = append(rs, r)
			if i == 0 {
				first, last = r.TimestampMs, r.TimestampMs
			}
			last = max(last, r.TimestampMs)
		}
		w.build(rs)
		b := &w.batch
		if b.FirstTimestamp.UnixMilli() != first || b.MaxTimestamp.UnixMilli() != last ||
			int(b.LastOffsetDelta) != len(rs)-1 || len(b.Records) != len(rs) {
			t.Fatalf("batch %+v of %d records, %d to %d", b, len(rs), first, last)
		}
		for i, r := range rs {
			got := b.Records[i]
			if got.OffsetDelta != int64(i) || got.TimestampDelta != time.Duration(r.TimestampMs-first)*time.Millisecond {
				t.Fatalf("record %d has deltas %d, %s", i, got.OffsetDelta, got.TimestampDelta)
			}
			k := &kgo.Record{Key: got.Key, Value: got.Value, Timestamp: time.UnixMilli(r.TimestampMs)}
			for _, h := range got.Headers {
				if h.Key == nil {
					t.Fatal("a header's key is nil, which Kafka refuses")
				}
				k.Headers = append(k.Headers, kgo.RecordHeader{Key: string(h.Key), Value: h.Value})
			}
			if diff := same(r, k); diff != "" {
				t.Fatalf("record %d: %s", i, diff)
			}
		}
	}
}

// TestLaneIsPure: the state machine imports nothing that it could do I/O, wait or start a
// goroutine with, and nothing of sarama.
func TestLaneIsPure(t *testing.T) {
	allowed := map[string]bool{"math": true, "slices": true, "strconv": true, "github.com/cdc-relay/cdc-relay/sink": true}
	for _, name := range []string{"lane.go", "lane_event.go", "lane_reject.go", "classify.go"} {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		must(t, err)
		for _, im := range f.Imports {
			if path, _ := strconv.Unquote(im.Path.Value); !allowed[path] {
				t.Errorf("%s imports %s", name, path)
			}
		}
	}
}
