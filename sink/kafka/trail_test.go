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
