package crash

import (
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/test/lab"
	"github.com/cdc-relay/cdc-relay/test/oracle"
	"github.com/cdc-relay/cdc-relay/wal"
)

// crime is a fault that struck, and what was unconfirmed at that moment.
type crime struct {
	what   string
	stored wal.LSN
	newest int64           // greatest id that was committed
	ends   map[int32]int64 // of the topic's partitions
}

// witness waits until the relay has published and stored more, so that the fault falls into traffic,
// and notes the newest event that is committed right before it.
func witness(t *testing.T, l *lab.Lab, what string) crime {
	t.Helper()
	l.WaitStored(l.Stored() + 1)
	l.WaitRecords(lab.Count(l.WaitEnds()) + 200)
	return scene(t, l, "outbox_events", what)
}

// scene notes how things are. The table holds all events.
func scene(t *testing.T, l *lab.Lab, table, what string) crime {
	t.Helper()
	c := crime{what: what, ends: l.WaitEnds()}
	var err error
	if c.newest, err = strconv.ParseInt(l.One("select coalesce(max(id), 0) from "+table), 10, 64); err != nil {
		t.Fatal(err)
	}
	return c
}

// sealed adds the stored position, best as it is after the fault: where it has moved since, the count
// of what was unconfirmed is only smaller.
func (c crime) sealed(l *lab.Lab) crime {
	c.stored = l.Stored()
	return c
}

// unconfirmed counts for each crime the events that were committed before it and lie past what was
// stored: a record's position tells its commit. Crimes are in the order of time, so that neither
// their stored positions nor their newest events step back.
func unconfirmed(t *testing.T, crimes []crime, records []oracle.Record) []int {
	t.Helper()
	steps := make([]int, len(crimes)+1)
	for r := range firsts(records) {
		id, err := strconv.ParseInt(r.ID[strings.LastIndexByte(r.ID, ':')+1:], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		from := sort.Search(len(crimes), func(i int) bool { return crimes[i].newest >= id })
		to := sort.Search(len(crimes), func(i int) bool { return crimes[i].stored > wal.LSN(r.Position.Commit) })
		if from < to {
			steps[from]++
			steps[to]--
		}
	}
	counts := make([]int, len(crimes))
	sum := 0
	for i := range counts {
		sum += steps[i]
		counts[i] = sum
	}
	return counts
}

// firsts yields the first record of each event.
func firsts(records []oracle.Record) func(func(*oracle.Record) bool) {
	return func(yield func(*oracle.Record) bool) {
		seen := make(map[string]bool, len(records))
		for i := range records {
			r := &records[i]
			if seen[r.ID] {
				continue
			}
			seen[r.ID] = true
			if !yield(r) {
				return
			}
		}
	}
}

// repeats counts for each crime the records that were there before, and came between it and the next.
func repeats(crimes []crime, records []oracle.Record) []int {
	counts := make([]int, len(crimes))
	seen := make(map[string]bool, len(records))
	for _, r := range records {
		if !seen[r.ID] {
			seen[r.ID] = true
			continue
		}
		next := sort.Search(len(crimes), func(i int) bool { return crimes[i].ends[r.Partition] > r.Offset })
		if next > 0 {
			counts[next-1]++
		}
	}
	return counts
}

// judge fails for each crime that struck when everything was confirmed.
func judge(t *testing.T, crimes []crime, records []oracle.Record) {
	t.Helper()
	again := repeats(crimes, records)
	for i, n := range unconfirmed(t, crimes, records) {
		c := crimes[i]
		t.Logf("%-32s %6d events unconfirmed past %-12s %6d repeats", c.what, n, c.stored, again[i])
		if n == 0 {
			t.Errorf("%s: nothing was unconfirmed, so the round proves nothing", c.what)
		}
	}
}
