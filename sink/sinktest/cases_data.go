package sinktest

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/decode/shape"
	"github.com/cdc-relay/cdc-relay/sink"
)

// scatter produces n records over the partitions at random and returns them by partition.
func (r *rig) scatter(topic string, partitions, n int) [][]*sink.Record {
	r.Helper()
	by := make([][]*sink.Record, partitions)
	for range n {
		p := r.rng.IntN(partitions)
		rec := r.event(topic, int32(p))
		by[p] = append(by[p], rec)
		r.produce(rec)
	}
	return by
}

func order(r *rig) {
	n := 20_000
	if testing.Short() {
		n = 2_000
	}
	topic := r.sub.Topic(r.T, 12)
	by := r.scatter(topic, 12, n)
	r.flush()
	for p := range by {
		if got := r.ledger.Acks(topic, int32(p)); !slices.Equal(got, by[p]) {
			r.Errorf("partition %d was not acked in the order of Produce", p)
		}
	}
	r.holds(topic, by)
}

func manyPartitions(r *rig) {
	n := 100_000
	if testing.Short() {
		n = 5_000
	}
	topic := r.sub.Topic(r.T, 100)
	by := r.scatter(topic, 100, n)
	r.flush()
	r.holds(topic, by)
}

// exactBytes sends each odd record once in a batch of its own and once among others.
func exactBytes(r *rig) {
	topic := r.sub.Topic(r.T, 2)
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	odd := map[string][]byte{
		"null": nil, "empty": {}, "all bytes": all, "zeros": make([]byte, 300), "invalid UTF-8": {0xff, 0xc0, 0x80, 'a'},
		"cut UTF-8": []byte("ключ")[:7], "UTF-8": []byte("ключ \u2028 \U0001F600 é e\u0301"), "surrogate": {0xed, 0xa0, 0x80},
		"replacement": []byte("\uFFFD"), "JSON": []byte(`{"b":1, "a":2,"a":3, "n":1234567890123456789.000100, "e":1E400}`),
		"JSON string": []byte(`"a\u0000\/"`), "JSON null": []byte("null"), "lines": []byte("a\nb\r\n\tc\x7f\x1b[0m"),
		"quotes": []byte(`\"'<>&{}`), "base64": []byte("AP8="), "spaces": []byte("  \x00 "),
	}
	by := make([][]*sink.Record, 2)
	for _, p := range []int32{0, 1} {
		for _, what := range slices.Sorted(maps.Keys(odd)) {
			b := odd[what]
			for field := range 3 {
				rec := r.event(topic, p)
				switch field {
				case 0:
					rec.Key = b
				case 1:
					rec.Value = b
				default:
					rec.Headers = append(rec.Headers, shape.Header{Key: what, Value: b}, shape.Header{Key: "after", Value: []byte("x")})
				}
				by[p] = append(by[p], rec)
			}
		}
		for _, hs := range [][]shape.Header{nil, {}, {{Key: "", Value: nil}}, {{Key: "same", Value: []byte("1")}, {Key: "same"}, {Key: "ключ", Value: []byte{}}}, manyHeaders(500)} {
			rec := r.event(topic, p)
			rec.Headers = hs
			by[p] = append(by[p], rec)
		}
		everything := r.event(topic, p)
		everything.Key, everything.Value, everything.Headers = nil, nil, nil
		by[p] = append(by[p], everything)
	}
	r.produce(by[0]...)
	for _, rec := range by[1] {
		r.produce(rec)
		r.flush()
	}
	r.flush()
	r.holds(topic, by)
}

func manyHeaders(n int) []shape.Header {
	hs := make([]shape.Header, n)
	for i := range hs {
		hs[i] = shape.Header{Key: fmt.Sprintf("h%d", i%7), Value: bytes.Repeat([]byte{byte(i)}, i)}
	}
	return hs
}

// bigValues mixes values near Kafka's default limit of 1 MiB per batch
// (message.max.bytes 1048588) with small ones, so that a batch is cut by its size.
func bigValues(r *rig) {
	topic := r.sub.Topic(r.T, 2)
	by := make([][]*sink.Record, 2)
	for i := range 60 {
		p := int32(i % 2)
		rec := r.event(topic, p)
		switch i % 5 {
		case 0:
			rec.Value = make([]byte, 900_000)
			for j := range rec.Value { // what can't be compressed
				rec.Value[j] = byte(r.rng.Uint32())
			}
		case 1:
			rec.Value = []byte(strings.Repeat("a", 1_000_000)) // what can
		case 2:
			rec.Key = make([]byte, 70_000)
		}
		by[p] = append(by[p], rec)
		r.produce(rec)
	}
	r.flush()
	r.holds(topic, by)
}

// timestamps within a batch go up, down and far apart. All are in the past, which every
// broker takes by default.
func timestamps(r *rig) {
	topic := r.sub.Topic(r.T, 1)
	var in []*sink.Record
	for _, ms := range []int64{
		1_700_000_000_123, 1_700_000_000_122, 1_700_000_000_123, 0, 1, 999, 1_000, 1_600_000_000_001,
		86_400_000, 1_700_000_000_999, 0, 1_699_999_999_999, 4_294_967_296, 4_294_967_295, 2_147_483_648,
	} {
		rec := r.event(topic, 0)
		rec.TimestampMs = ms
		in = append(in, rec)
	}
	r.produce(in...)
	r.flush()
	alone := r.event(topic, 0)
	alone.TimestampMs = 0
	in = append(in, alone)
	r.produce(alone)
	r.flush()
	r.holds(topic, [][]*sink.Record{in})
}

// untouched: the ticket comes back, and nothing of a record is changed.
func untouched(r *rig) {
	topic := r.sub.Topic(r.T, 1)
	var in []*sink.Record
	var copies []sink.Record
	for range 100 {
		rec := r.event(topic, 0)
		rec.Ticket = r.rng.Uint64()
		c := *rec
		c.Key, c.Value, c.ShardKey = bytes.Clone(rec.Key), bytes.Clone(rec.Value), bytes.Clone(rec.ShardKey)
		c.Headers = []shape.Header{{Key: rec.Headers[0].Key, Value: bytes.Clone(rec.Headers[0].Value)}}
		in, copies = append(in, rec), append(copies, c)
	}
	r.produce(in...)
	r.flush()
	for i := range in {
		if !reflect.DeepEqual(*in[i], copies[i]) {
			r.Fatalf("record %d was changed:\n got %+v\nwant %+v", i, *in[i], copies[i])
		}
	}
}
