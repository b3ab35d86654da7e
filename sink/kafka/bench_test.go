package kafka

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/rs/zerolog"

	"github.com/cdc-relay/cdc-relay/decode/shape"
	"github.com/cdc-relay/cdc-relay/internal/devenv/envtest"
	"github.com/cdc-relay/cdc-relay/sink"
	"github.com/cdc-relay/cdc-relay/wal"
)

// typical is a record as the relay publishes it: some 300 bytes of JSON and five headers.
func typical(topic string, partition int32, n int) *sink.Record {
	pos := wal.Position{Lineage: 1, Commit: wal.LSN(0x16B374D848 + n), Seq: uint32(n % 3)}
	dedupe := fmt.Sprintf("order.placed:order-%d:%d", n%5000, n)
	return &sink.Record{
		Event: shape.Event{
			Position: pos, Topic: topic, Key: fmt.Appendf(nil, "order-%d", n%5000),
			Value: fmt.Appendf(nil, `{"order_id": "order-%d", "customer": "customer-%d", "total": %d.95, "currency": "EUR", `+
				`"lines": [{"sku": "sku-%d", "quantity": %d, "price": 19.95}, {"sku": "sku-%d", "quantity": 1, "price": %d.00}], `+
				`"address": {"street": "Long Street %d", "city": "Springfield", "zip": "%05d"}}`,
				n%5000, n%997, n%500, n%331, n%7, n%337, n%90, n%100, n%99999),
			Headers: []shape.Header{
				{Key: "event_id", Value: []byte(dedupe)},
				{Key: "event_type", Value: []byte("order.placed")},
				{Key: "dedupe_key", Value: []byte(dedupe)},
				{Key: "ordering_key", Value: fmt.Appendf(nil, "%013d:%020d", 1700000000000+n, n)},
				{Key: "position", Value: []byte(pos.String())},
			},
			TimestampMs: time.Now().UnixMilli(), DedupeKey: dedupe,
		},
		Partition: partition, Ticket: uint64(n),
	}
}

// nobody is a Handler that only counts.
type nobody struct{ room chan int }

func (h *nobody) Acked(rs []*sink.Record) { h.room <- len(rs) }
func (h *nobody) Reject(context.Context, *sink.Record, error) (sink.Verdict, error) {
	return sink.Retry, nil
}
func (h *nobody) Topic(string, error) {}

// BenchmarkPublish publishes to a real Kafka with up to 40,000 records under way, as the
// relay's buffer would let it. cpu-s/M is this process' CPU time per million records.
func BenchmarkPublish(b *testing.B) {
	const window = 40_000
	rs := make([]*sink.Record, 2*window)
	for _, codec := range []string{"none", "lz4", "zstd"} {
		b.Run(codec, func(b *testing.B) {
			broker := envtest.Kafka(b)
			topic := envtest.Topic(b, broker.Brokers(), 12)
			for i := range rs {
				rs[i] = typical(topic, int32(i%12), i)
			}
			h := &nobody{room: make(chan int, 1024)}
			cfg := Config{Brokers: broker.Brokers(), Compression: codec, Log: zerolog.Nop()}
			s := open(b, cfg, h)
			ctx := context.Background()
			flush(b, ctx, s)
			b.ReportAllocs()
			b.ResetTimer()
			before := cpu(b)
			room := window
			for i := range b.N {
				for room == 0 {
					room += <-h.room
				}
				room--
				produce(b, s, rs[i%len(rs)])
			}
			for room < window {
				room += <-h.room
			}
			b.StopTimer()
			n := float64(b.N)
			b.ReportMetric((cpu(b)-before).Seconds()*1e6/n, "cpu-s/M")
			b.ReportMetric(n/b.Elapsed().Seconds(), "records/s")
			b.ReportMetric(n/float64(s.Stats().Requests), "records/request")
		})
	}
}

func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkBuild makes a batch of 500 records ready for sarama, which is what we do of its
// encoding.
func BenchmarkBuild(b *testing.B) {
	bt := newBatch()
	for i := range 500 {
		bt.records = append(bt.records, typical("orders", 0, i))
	}
	b.ReportAllocs()
	for b.Loop() {
		bt.encode(sarama.CompressionLZ4)
		bt.wire.free()
		bt.wire = nil
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/500, "ns/record")
}

// BenchmarkLane takes records through a lane alone, 500 a batch.
func BenchmarkLane(b *testing.B) {
	rs := make([]*sink.Record, 500)
	for i := range rs {
		rs[i] = typical("orders", 0, i)
	}
	l := newLane(1 << 20)
	var out []action
	offset := int64(0)
	out = l.step(event{kind: evAppend, record: rs[0], size: 500}, out[:0])
	out = l.step(event{kind: evID, id: 1}, out[:0])
	b.ReportAllocs()
	for b.Loop() {
		for _, r := range rs {
			out = l.step(event{kind: evAppend, record: r, size: 500}, out[:0])
		}
		out = l.step(event{kind: evTake, limit: 1 << 30}, out[:0])
		out = l.step(event{kind: evAnswer, class: acked, offset: offset}, out[:0])
		for _, a := range out {
			if a.kind == actReport {
				offset += int64(len(a.batch.records))
				a.batch.free()
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/500, "ns/record")
}
