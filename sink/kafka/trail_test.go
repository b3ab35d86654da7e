package kafka

import (
	"math/rand/v2"
	"testing"

	"github.com/cdc-relay/cdc-relay/sink"
	"github.com/cdc-relay/cdc-relay/wal"
)

// TestTrail: whatever the log loses, nothing before the position that is named is among it, and
// the position isn't further back than the marks are apart.
func TestTrail(t *testing.T) {
	dice := rand.New(rand.NewPCG(3, 4))
	var tr trail
	var offsets []int64 // of the records, by number
	offset := int64(100)
	pos := func(n int) wal.Position { return wal.Position{Lineage: 1, Commit: wal.LSN(n + 1)} }
	if from, last := tr.lost(-1); from.Lineage != 0 || last.Lineage != 0 {
		t.Errorf("nothing was published, and %v to %v is lost", from, last)
	}
	for batch := range 3000 {
		var rs []*sink.Record
		at := offset
		for range 1 + dice.IntN(5) {
			r := &sink.Record{}
			r.Position = pos(len(offsets))
			rs = append(rs, r)
			offsets = append(offsets, offset)
			offset++
		}
		tr.add(at, rs)
		offset += dice.Int64N(3) // others' records
		if len(tr.marks) > trailMarks {
			t.Fatalf("%d marks", len(tr.marks))
		}
		for _, end := range []int64{-1, 0, 100, offset - 1, offset, 100 + dice.Int64N(offset-100)} {
			from, last := tr.lost(end)
			if want := pos(len(offsets) - 1); last != want {
				t.Fatalf("batch %d: the last one is %v, want %v", batch, last, want)
			}
			first := len(offsets) // of the records that the log hasn't got any more
			for first > 0 && offsets[first-1] >= end {
				first--
			}
			if first < len(offsets) && pos(first).Compare(from) < 0 {
				t.Fatalf("batch %d, the log ends at %d: from %v on, but %v is lost", batch, end, from, pos(first))
			}
			// Marks are at most every batches apart, each of up to 5 records.
			if back := first - int(from.Commit-1); back > 5*(tr.every+1)+5 {
				t.Fatalf("batch %d, the log ends at %d: %d records before the first lost one", batch, end, back)
			}
		}
	}
}

// TestAckWithoutOffset: DUPLICATE_SEQUENCE_NUMBER says that a batch is in the log and not where.
// What a log that loses its end has lost is still not said to begin later than it does.
func TestAckWithoutOffset(t *testing.T) {
	b, ps := standing(t, 1)
	p := ps[0]
	ack := func(offset int64) {
		t.Helper()
		if len(b.collect().parts) != 1 {
			t.Fatal("nothing is sent")
		}
		if offset < 0 { // lost, and recognised as a repeat
			p.handle(event{kind: evAnswer, class: unknown, offset: -1})
			poll(t, testContext(t), "the next attempt", func() bool { return len(b.collect().parts) == 1 })
			p.handle(event{kind: evAnswer, class: acked, code: codeDuplicateSequence, offset: -1})
			return
		}
		p.handle(event{kind: evAnswer, class: acked, offset: offset})
	}
	for i, offset := range []int64{-1, -1, 100, -1, -1, 200} {
		if i > 0 {
			produce(t, b.sink, record("orders", 0, i))
		}
		ack(offset)
	}
	for _, x := range []struct {
		end  int64 // of the log
		from wal.LSN
	}{{0, 1000}, {50, 1000}, {99, 1000}, {100, 1002}, {101, 1002}, {150, 1002}, {199, 1002}, {200, 1005}} {
		from, last := p.trail.lost(x.end)
		if from.Commit != x.from || last.Commit != 1005 {
			t.Errorf("the log ends at %d: %v to %v is lost, want from %v", x.end, from, last, x.from)
		}
	}
}
