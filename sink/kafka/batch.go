package kafka

import (
	"sync"

	"github.com/cdc-relay/cdc-relay/sink"
)

// flaw says why a record can never be sent, whatever the broker says.
type flaw uint8

const (
	sound        flaw = iota
	tooLarge          // over what one request may hold
	badTimestamp      // before 1970, or beyond what sarama's nanoseconds hold
	badTopic          // a name that no topic can have
)

// entry is a record that waits in a lane.
type entry struct {
	r    *sink.Record
	size int32 // encoded, uncompressed
	flaw flaw
}

// fifo is a queue of entries that keeps its memory.
type fifo struct {
	buf  []entry
	head int
}

func (q *fifo) len() int { return len(q.buf) - q.head }

func (q *fifo) push(e entry) {
	if len(q.buf) == cap(q.buf) && q.head > len(q.buf)/2 {
		// At least half of it is free: moving the rest costs a constant per record.
		n := copy(q.buf, q.buf[q.head:])
		clear(q.buf[n:])
		q.buf = q.buf[:n]
		q.head = 0
	}
	q.buf = append(q.buf, e)
}

func (q *fifo) peek() *entry { return &q.buf[q.head] }

func (q *fifo) pop() entry {
	e := q.buf[q.head]
	q.buf[q.head] = entry{}
	q.head++
	if q.head == len(q.buf) {
		q.buf = q.buf[:0]
		q.head = 0
	}
	return e
}

// batch is a frozen run of records: what is sent, and sent again, as one.
type batch struct {
	records []*sink.Record
	bytes   int // encoded, uncompressed
	flaw    flaw

	id    int64
	epoch int16
	seq   int32 // of the first record

	// maybe: a sending under this id and epoch had no definite answer, so it may be in the log.
	maybe bool
	// whole: it was sent again as it was after one of its pieces met a sequence error. A
	// connection that dies doesn't split it a second time.
	whole bool
	// shared: records is a part of another batch's slice.
	shared bool

	wire *wire // its encoded form, once there is one
}

var batches = sync.Pool{New: func() any { return new(batch) }}

func newBatch() *batch { return batches.Get().(*batch) }

// free gives the batch's memory back. Nothing may refer to it any more.
func (b *batch) free() {
	b.wire.free()
	if b.shared {
		b.records = nil
	}
	clear(b.records)
	*b = batch{records: b.records[:0]}
	batches.Put(b)
}

// unwire gives the encoded form back; it can be made again.
func (b *batch) unwire() {
	b.wire.free()
	b.wire = nil
}

// slice is the piece [from, to) of b.
func (b *batch) slice(from, to int) *batch {
	p := newBatch()
	p.records = b.records[from:to:to]
	p.shared = true
	p.bytes = batchOverhead
	for _, r := range p.records {
		p.bytes += recordSize(r)
	}
	return p
}
