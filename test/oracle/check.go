package oracle

import (
	"cmp"
	"fmt"
	"slices"
)

// examples is how many findings of a kind a report names.
const examples = 10

// Check compares what was expected with what is in the topic. IDs of expected events must be
// unique: a second one is a finding (Ambiguous), since the records can't be told apart.
func Check(expected []Expected, got []Record) Report {
	c := &checker{
		expected: expected,
		byID:     make(map[string]int32, len(expected)),
		first:    make([]int32, len(expected)),
		keys:     make(map[string]*keyState),
		parts:    make(map[int32]*partState),
	}
	c.report.Expected = len(expected)
	c.report.Records = len(got)
	for i := range expected {
		e := &expected[i]
		c.first[i] = -1
		if _, twice := c.byID[e.ID]; twice {
			c.find(Ambiguous, Finding{
				ID: e.ID, Key: e.Key, Partition: e.Partition, Offset: -1,
				Detail: "two expected events have this ID",
			})
			continue
		}
		c.byID[e.ID] = int32(i)
	}
	c.got = sorted(got)
	for i := range c.got {
		c.record(int32(i))
	}
	for i := range expected {
		if c.first[i] < 0 && c.byID[expected[i].ID] == int32(i) {
			e := &expected[i]
			c.find(Missing, Finding{
				ID: e.ID, Key: e.Key, Partition: e.Partition, Offset: -1,
				Detail: "not in the topic",
			})
		}
	}
	c.positions()
	c.report.Partitions = c.partitions()
	return c.report
}

// sorted returns the records by partition and offset, without touching the caller's slice
// where it is in that order already.
func sorted(got []Record) []Record {
	order := func(a, b Record) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
	}
	if slices.IsSortedFunc(got, order) {
		return got
	}
	got = slices.Clone(got)
	slices.SortFunc(got, order)
	return got
}

// keyState is what was seen of one key so far.
type keyState struct {
	partition int32 // of its first record
	seen      bool  // a first occurrence was seen
	order     int64 // greatest order among first occurrences
	position  Position
	last      place // of the last record, first or repeat
	rewinds   int
}

// place is where an event is among those of its key.
type place struct {
	order    int64
	position Position
}

// behind says that p is not before q, by what is known of both.
func (p place) behind(q place) bool {
	if p.order == ByPosition || q.order == ByPosition {
		return !p.position.none() && q.position.compare(p.position) <= 0
	}
	return q.order <= p.order
}

type partState struct {
	keys, events, repeats int
}

type checker struct {
	report   Report
	expected []Expected
	got      []Record
	byID     map[string]int32
	first    []int32 // by expected event: its first record
	keys     map[string]*keyState
	parts    map[int32]*partState
}

// record judges one record against the event that it should be.
func (c *checker) record(i int32) {
	r := &c.got[i]
	part := c.parts[r.Partition]
	if part == nil {
		part = &partState{}
		c.parts[r.Partition] = part
	}
	n, ok := c.byID[r.ID]
	if !ok {
		detail := "no event has this ID"
		if r.ID == "" {
			detail = "the record has no " + idHeader + " header"
		}
		c.find(Unknown, finding(r, "", detail))
		return
	}
	e := &c.expected[n]
	k := c.keys[e.Key]
	if k == nil {
		k = &keyState{partition: r.Partition}
		c.keys[e.Key] = k
		part.keys++
	}
	c.bytes(r, e)
	belongs := e.Partition
	if belongs < 0 {
		belongs = k.partition
	}
	moved := r.Partition != belongs
	if moved {
		c.find(Moved, finding(r, e.Key, fmt.Sprintf("belongs in partition %d", belongs)))
	}
	if !moved { // there is no order between partitions
		here := place{e.Order, r.Position}
		if k.seen && k.last.behind(here) {
			k.rewinds++
			c.report.Rewinds = max(c.report.Rewinds, k.rewinds)
		}
		k.last = here
	}
	if c.first[n] >= 0 {
		part.repeats++
		c.repeat(r, &c.got[c.first[n]], e)
	} else {
		c.first[n] = i
		c.report.Events++
		part.events++
		if !moved {
			c.order(r, e, k)
		}
	}
}

// order judges a first occurrence: it must not come after a later event of its key.
func (c *checker) order(r *Record, e *Expected, k *keyState) {
	if k.seen && e.Order <= k.order && e.Order != ByPosition {
		c.find(Backward, finding(r, e.Key, fmt.Sprintf("order %d comes after %d", e.Order, k.order)))
	}
	if !r.Position.none() && r.Position.compare(k.position) <= 0 {
		c.find(Stale, finding(r, e.Key, fmt.Sprintf("position %s comes after %s", r.Position, k.position)))
	}
	if !k.seen || e.Order > k.order {
		k.order = e.Order
	}
	if r.Position.compare(k.position) > 0 {
		k.position = r.Position
	}
	k.seen = true
}

// bytes compares a record with what the event says about its content.
func (c *checker) bytes(r *Record, e *Expected) {
	if e.RecordKey != Any && r.Key != e.RecordKey {
		c.find(Altered, finding(r, e.Key, "the key's bytes are not the event's"))
	}
	if e.Value != Any && r.Value != e.Value {
		c.find(Altered, finding(r, e.Key, "the value's bytes are not the event's"))
	}
	if e.Promised != Any && r.Promised != e.Promised {
		c.find(Altered, finding(r, e.Key, "the headers, leaving the position aside, are not the event's"))
	}
	if e.Timestamp != 0 && r.Timestamp != e.Timestamp {
		c.find(Altered, finding(r, e.Key, fmt.Sprintf("the timestamp is %d, not %d", r.Timestamp, e.Timestamp)))
	}
	if r.Malformed {
		c.find(Misnumbered, finding(r, e.Key, "the header "+positionHeader+" holds no position"))
	}
}

// repeat compares a repeat with the first occurrence.
func (c *checker) repeat(r, first *Record, e *Expected) {
	c.find(Repeated, finding(r, e.Key, fmt.Sprintf("first at partition %d offset %d", first.Partition, first.Offset)))
	for _, d := range []struct {
		what   string
		differ bool
	}{
		{"key", r.Key != first.Key},
		{"value", r.Value != first.Value},
		{"position", r.Position != first.Position},
		{"headers", r.Headers != first.Headers && r.Position == first.Position},
		{"timestamp", r.Timestamp != first.Timestamp},
	} {
		if d.differ {
			c.find(Differing, finding(r, e.Key, fmt.Sprintf("its %s is not that of partition %d offset %d",
				d.what, first.Partition, first.Offset)))
		}
	}
}

func (c *checker) find(k Kind, f Finding) { c.report.add(k, f) }

func (c *checker) partitions() []PartitionCount {
	out := make([]PartitionCount, 0, len(c.parts))
	for p, s := range c.parts {
		out = append(out, PartitionCount{Partition: p, Keys: s.keys, Events: s.events, Repeats: s.repeats})
	}
	slices.SortFunc(out, func(a, b PartitionCount) int { return cmp.Compare(a.Partition, b.Partition) })
	return out
}

func finding(r *Record, key, detail string) Finding {
	return Finding{ID: r.ID, Key: key, Partition: r.Partition, Offset: r.Offset, Detail: detail}
}
