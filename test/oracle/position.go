package oracle

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
)

// Position is a position header: where an event is in the order of commits. The zero Position
// is none.
type Position struct {
	Commit  uint64 // LSN of the commit record
	Seq     uint32 // number in the transaction
	Lineage uint16 // LSNs are compared within one
}

// The lineage has four digits or, without a zero in front, more.
var positionForm = regexp.MustCompile(`^([0-9]{4}|[1-9][0-9]{4}):([0-9A-F]{16}):([0-9]{10})$`)

// parsePosition is strict: two texts are never one position.
func parsePosition(b []byte) (Position, bool) {
	m := positionForm.FindSubmatch(b)
	if m == nil {
		return Position{}, false
	}
	lineage, errL := strconv.ParseUint(string(m[1]), 10, 16)
	commit, errC := strconv.ParseUint(string(m[2]), 16, 64)
	seq, errS := strconv.ParseUint(string(m[3]), 10, 32)
	if errL != nil || errC != nil || errS != nil || lineage == 0 || commit == 0 {
		return Position{}, false
	}
	return Position{Commit: commit, Seq: uint32(seq), Lineage: uint16(lineage)}, true
}

func (p Position) none() bool { return p == Position{} }

func (p Position) compare(q Position) int {
	return cmp.Or(cmp.Compare(p.Lineage, q.Lineage), cmp.Compare(p.Commit, q.Commit), cmp.Compare(p.Seq, q.Seq))
}

func (p Position) String() string {
	return fmt.Sprintf("%04d:%016X:%010d", p.Lineage, p.Commit, p.Seq)
}

// positions judges the positions of all events that are there, by their first records and in
// whatever partitions those are.
func (c *checker) positions() {
	var events []int32
	for n, first := range c.first {
		if first >= 0 && !c.got[first].Position.none() {
			events = append(events, int32(n))
		}
	}
	at := func(n int32) Position { return c.got[c.first[n]].Position }

	slices.SortFunc(events, func(a, b int32) int { return cmp.Or(at(a).compare(at(b)), cmp.Compare(c.first[a], c.first[b])) })
	txns := make(map[uint32]int32) // the first event of each
	for i, n := range events {
		if i > 0 && at(n) == at(events[i-1]) {
			c.misnumbered(n, "as %q has", c.expected[events[i-1]].ID)
		}
		txn := c.expected[n].Txn
		if txn == 0 {
			continue
		}
		if m, ok := txns[txn]; !ok {
			txns[txn] = n
		} else if at(m).Commit != at(n).Commit || at(m).Lineage != at(n).Lineage {
			c.misnumbered(n, "in one transaction with %q, which has %s", c.expected[m].ID, at(m))
		}
	}

	events = slices.DeleteFunc(events, func(n int32) bool { return c.expected[n].Order == ByPosition })
	slices.SortFunc(events, func(a, b int32) int {
		x, y := &c.expected[a], &c.expected[b]
		return cmp.Or(cmp.Compare(x.Key, y.Key), cmp.Compare(x.Order, y.Order), at(a).compare(at(b)))
	})
	var last int32 // the event of this key with the greatest position so far
	for i, n := range events {
		switch {
		case i == 0 || c.expected[n].Key != c.expected[last].Key || at(n).compare(at(last)) > 0:
			last = n
		default:
			c.misnumbered(n, "though it comes after %q, which has %s", c.expected[last].ID, at(last))
		}
	}
}

// misnumbered reports the position of an event.
func (c *checker) misnumbered(n int32, format string, args ...any) {
	r := &c.got[c.first[n]]
	c.find(Misnumbered, finding(r, c.expected[n].Key, fmt.Sprintf("has position %s, "+format, append([]any{r.Position}, args...)...)))
}
