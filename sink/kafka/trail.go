package kafka

import (
	"github.com/cdc-relay/cdc-relay/sink"
	"github.com/cdc-relay/cdc-relay/wal"
)

// trail remembers roughly which position was published at which offset of one partition, so
// that a log that lost its end can say from where to replay. Its memory is fixed: when it is
// full every second mark goes.
type trail struct {
	marks []mark
	every int // batches from one mark to the next
	skip  int
	last  wal.Position // of the last record acknowledged
}

type mark struct {
	offset int64
	pos    wal.Position
}

const trailMarks = 32

// add notes the records that are in the log from offset on, or somewhere behind the others where
// that is -1.
func (t *trail) add(offset int64, rs []*sink.Record) {
	t.last = rs[len(rs)-1].Position
	if offset < 0 {
		if len(t.marks) > 0 {
			return // a mark too far to the left would hide what lies before it
		}
		offset = 0
	}
	if t.skip > 0 {
		t.skip--
		return
	}
	if len(t.marks) == trailMarks {
		for i := range trailMarks / 2 {
			t.marks[i] = t.marks[2*i]
		}
		t.marks = t.marks[:trailMarks/2]
		t.every *= 2
	}
	t.every = max(t.every, 1)
	t.marks = append(t.marks, mark{offset, rs[0].Position})
	t.skip = t.every - 1
}

// lost is a position before which nothing is lost when the log ends at offset (-1: nobody
// knows where), and the last one acknowledged.
func (t *trail) lost(offset int64) (from, last wal.Position) {
	for _, m := range t.marks {
		if from.Lineage == 0 || m.offset <= offset {
			from = m.pos
		}
	}
	return from, t.last
}
