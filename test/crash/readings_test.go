package crash

import (
	"sort"

	"github.com/cdc-relay/cdc-relay/test/oracle"
)

// series are the rising series that the records of a key fall apart into: of each its last position.
// A reading of the log publishes each event of a key once, in the order of commits. So what k readings
// have published falls apart into at most k rising series, however a broker has mixed them: also where
// a relay wakes, or requests of one that was killed are taken late, beside its successor. A count of
// the steps back has no such bound, since each change between the two may be one.
type series []oracle.Position

// add puts a record at the end of the series that it follows most closely, or begins another. That way
// there are never more than there must be.
func (s series) add(p oracle.Position) series {
	best := -1
	for i, last := range s {
		if before(last, p) && (best < 0 || before(s[best], last)) {
			best = i
		}
	}
	if best < 0 {
		return append(s, p)
	}
	s[best] = p
	return s
}

// before compares positions of one lineage: there is no failover here.
func before(a, b oracle.Position) bool {
	return a.Commit < b.Commit || a.Commit == b.Commit && a.Seq < b.Seq
}

// readings is for each crime the number of readings of the log that it takes to explain the records
// that came between it and the next, for the key that needs most. The first entry is for what came
// before any.
func readings(crimes []crime, records []oracle.Record) []int {
	type place struct {
		window    int
		partition int32
		key       oracle.Digest
	}
	all := map[place]series{}
	counts := make([]int, len(crimes)+1)
	for i := range records {
		r := &records[i]
		window := sort.Search(len(crimes), func(i int) bool { return crimes[i].ends[r.Partition] > r.Offset })
		at := place{window, r.Partition, r.Key}
		all[at] = all[at].add(r.Position)
		counts[window] = max(counts[window], len(all[at]))
	}
	return counts
}

// readingsOf is how many readings may have published between a fault and the next one: the one that was
// there, and a new one where the fault may end it. What begins none may repeat nothing.
func readingsOf(f fault) int {
	if f.once {
		return 1
	}
	return 2
}
