package storm

import (
	"encoding/binary"
	"strings"
	"testing"
)

// records is the head of a record batch.
func records(b batch) []byte {
	out := make([]byte, batchHead)
	binary.BigEndian.PutUint64(out[atProducer:], uint64(b.producer))
	binary.BigEndian.PutUint16(out[atEpoch:], uint16(b.epoch))
	binary.BigEndian.PutUint32(out[atSequence:], uint32(b.first))
	binary.BigEndian.PutUint32(out[atCount:], uint32(b.n))
	return out
}

// sent is one batch on the wire, and whether it was answered before the next.
type sent struct {
	partition int32
	batch     batch
	answered  bool
}

func TestRules(t *testing.T) {
	const top = 1<<31 - 1
	for _, tc := range []struct {
		name  string
		sent  []sent
		want  string // in the breach; empty: none
		tally seen
	}{
		{"in order", []sent{{0, batch{1, 0, 0, 3}, true}, {0, batch{1, 0, 3, 2}, true}, {0, batch{1, 0, 5, 1}, false}}, "", seen{}},
		{"two in flight", []sent{{0, batch{1, 0, 0, 3}, false}, {0, batch{1, 0, 3, 2}, false}}, "before 0 to 2 was answered", seen{}},
		{"sent again", []sent{{0, batch{1, 0, 0, 3}, false}, {0, batch{1, 0, 0, 3}, true}, {0, batch{1, 0, 3, 3}, true}}, "", seen{retries: 1}},
		{"split", []sent{{0, batch{1, 0, 0, 4}, false}, {0, batch{1, 0, 0, 2}, true}, {0, batch{1, 0, 2, 2}, true}}, "", seen{retries: 1}},
		{"second piece at once", []sent{{0, batch{1, 0, 0, 4}, false}, {0, batch{1, 0, 0, 2}, false}, {0, batch{1, 0, 2, 2}, false}}, "before 0 to 1", seen{retries: 1}},
		{"a copy that came late", []sent{{0, batch{1, 0, 0, 3}, true}, {0, batch{1, 0, 3, 2}, true}, {0, batch{1, 0, 0, 3}, false}}, "", seen{late: 1}},
		{"gap", []sent{{0, batch{1, 0, 0, 3}, true}, {0, batch{1, 0, 4, 2}, true}}, "leaves a gap", seen{}},
		{"new epoch", []sent{{0, batch{1, 0, 0, 3}, false}, {0, batch{1, 1, 0, 3}, true}, {0, batch{1, 1, 3, 3}, true}}, "", seen{}},
		{"new epoch in the middle", []sent{{0, batch{1, 0, 0, 3}, true}, {0, batch{1, 1, 3, 3}, true}}, "begins at sequence 3", seen{}},
		{"old epoch", []sent{{0, batch{1, 1, 0, 3}, true}, {0, batch{1, 0, 0, 3}, true}}, "", seen{late: 1}},
		{"new id", []sent{{0, batch{1, 4, 0, 3}, true}, {0, batch{2, 0, 0, 3}, true}}, "", seen{}},
		{"no id", []sent{{0, batch{-1, -1, -1, 3}, true}}, "without a producer id", seen{}},
		{"shared id", []sent{{0, batch{1, 0, 0, 3}, true}, {1, batch{1, 0, 0, 3}, true}}, "producer id of t/0", seen{}},
		{"wrap", []sent{{0, batch{1, 0, 0, top}, true}, {0, batch{1, 0, top, 3}, true}, {0, batch{1, 0, 2, 1}, true}}, "", seen{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var r rules
			for _, s := range tc.sent {
				at := place{"t", s.partition}
				r.batch(at, records(s.batch))
				if s.answered {
					r.lane(at).answered = true
				}
			}
			got, broken := r.verdict()
			tc.tally.batches = len(tc.sent)
			if got != tc.tally {
				t.Errorf("seen %+v, want %+v", got, tc.tally)
			}
			if text := strings.Join(broken, "\n"); !strings.Contains(text, tc.want) || (tc.want == "" && text != "") || len(broken) > 1 {
				t.Errorf("breaches %q, want %q", broken, tc.want)
			}
		})
	}
}
