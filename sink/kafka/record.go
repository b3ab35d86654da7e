package kafka

import (
	"sync"
	"time"

	"github.com/IBM/sarama"

	"github.com/cdc-relay/cdc-relay/sink"
)

const (
	// batchOverhead is a record batch without its records (the v2 format's 61 bytes), with
	// its partition, length and tags in the request.
	batchOverhead = 61 + 16
	// recordOverhead is what a record has beside its fields: length, attributes, timestamp
	// and offset deltas, each at its longest for a batch that we build.
	recordOverhead = 5 + 1 + 9 + 4
	// requestOverhead is a request without its batches, and what a topic adds, amply.
	requestOverhead = 512
	// maxTimestampMs is the last millisecond that sarama's nanoseconds hold: April 2262.
	maxTimestampMs = (1<<63 - 1) / int64(time.Millisecond)
)

// recordSize is the most bytes that r takes in a batch, uncompressed.
func recordSize(r *sink.Record) int {
	n := recordOverhead + bytesSize(len(r.Key)) + bytesSize(len(r.Value)) + varintSize(len(r.Headers))
	for i := range r.Headers {
		h := &r.Headers[i]
		n += bytesSize(len(h.Key)) + bytesSize(len(h.Value))
	}
	return n
}

func bytesSize(n int) int { return varintSize(n) + n }

// varintSize is the size of a zigzag varint of n >= 0 (or of -1, which is one byte too).
func varintSize(n int) int {
	s := 1
	for v := uint64(n) << 1; v >= 0x80; v >>= 7 {
		s++
	}
	return s
}

// flawOf says whether r can be sent at all.
func flawOf(r *sink.Record, size int) flaw {
	switch {
	case size+batchOverhead+requestOverhead+len(r.Topic) > int(sarama.MaxRequestSize):
		return tooLarge
	case r.TimestampMs < 0 || r.TimestampMs > maxTimestampMs:
		// sarama refuses the whole request for one of these.
		return badTimestamp
	}
	return sound
}

// validTopic says whether a topic can have this name (Kafka's Topic.validate).
func validTopic(name string) bool {
	if name == "" || name == "." || name == ".." || len(name) > 249 {
		return false
	}
	for i := range len(name) {
		c := name[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

// wire is a batch in sarama's types. Its arrays are kept for the next batch: sarama wants a
// pointer per record and per header, which point into them.
type wire struct {
	batch   sarama.RecordBatch
	records []sarama.Record
	refs    []*sarama.Record
	headers []sarama.RecordHeader
	hrefs   []*sarama.RecordHeader
	keys    []byte // the header keys' bytes
}

var wires = sync.Pool{New: func() any { return new(wire) }}

// free gives the memory back. The request that it was in has been answered.
func (w *wire) free() {
	if w == nil {
		return
	}
	w.batch = sarama.RecordBatch{}
	clear(w.records)
	clear(w.headers)
	wires.Put(w)
}

// encode sets b.wire to b's records and stamps it with b's id, epoch and sequence. What is
// already there is kept: id, epoch and sequence lie outside of the compressed part.
func (b *batch) encode(codec sarama.CompressionCodec) *sarama.RecordBatch {
	if b.wire == nil {
		b.wire = wires.Get().(*wire)
		b.wire.build(b.records)
	}
	rb := &b.wire.batch
	rb.Codec = codec
	rb.ProducerID, rb.ProducerEpoch, rb.FirstSequence = b.id, b.epoch, b.seq
	return rb
}

func (w *wire) build(rs []*sink.Record) {
	nh, nk := 0, 0
	for _, r := range rs {
		nh += len(r.Headers)
		for i := range r.Headers {
			nk += len(r.Headers[i].Key)
		}
	}
	w.records = sized(w.records, len(rs))
	w.refs = sized(w.refs, len(rs))
	w.headers = sized(w.headers, nh)
	w.hrefs = sized(w.hrefs, nh)
	w.keys = sized(w.keys, nk)

	first := rs[0].TimestampMs
	last := first
	keys, at := w.keys, 0
	for i, r := range rs {
		last = max(last, r.TimestampMs)
		from := at
		for j := range r.Headers {
			h := &r.Headers[j]
			n := copy(keys, h.Key)
			w.headers[at] = sarama.RecordHeader{Key: keys[:n:n], Value: h.Value}
			w.hrefs[at] = &w.headers[at]
			keys = keys[n:]
			at++
		}
		w.records[i] = sarama.Record{
			Headers:        w.hrefs[from:at],
			TimestampDelta: time.Duration(r.TimestampMs-first) * time.Millisecond,
			OffsetDelta:    int64(i),
			Key:            r.Key,
			Value:          r.Value,
		}
		w.refs[i] = &w.records[i]
	}
	w.batch = sarama.RecordBatch{
		Version:          2,
		CompressionLevel: sarama.CompressionLevelDefault,
		FirstTimestamp:   time.UnixMilli(first),
		MaxTimestamp:     time.UnixMilli(last),
		LastOffsetDelta:  int32(len(rs) - 1),
		Records:          w.refs,
	}
}

// sized returns s with length n, in its own memory where that is large enough. It is never nil,
// also for n = 0: sarama would encode an empty piece of it as null, and Kafka refuses a null
// header key.
func sized[T any](s []T, n int) []T {
	if s == nil || cap(s) < n {
		return make([]T, n, n+n/4)
	}
	return s[:n]
}
