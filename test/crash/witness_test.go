package crash

import (
	"context"
	"sort"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/test/lab"
	"github.com/cdc-relay/cdc-relay/test/oracle"
	"github.com/cdc-relay/cdc-relay/wal"
)

// crime is a fault that struck, and what was unconfirmed at that moment.
type crime struct {
	what    string
	stored  wal.LSN
	durable wal.LSN         // the end of the log that Postgres had on disk: what commits before it was committed
	ends    map[int32]int64 // of the topic's partitions
	most    int             // readings of the log that may publish between it and the next crime
}

// witness waits until the relay has published and stored more, so that the fault falls into traffic,
// and notes how things are right before it. most is the number of readings of the log that may publish
// between it and the next.
func witness(t *testing.T, l *lab.Lab, what string, most int) crime {
	t.Helper()
	l.WaitStored(l.Stored() + 1)
	l.WaitRecords(lab.Count(l.WaitEnds()) + 200)
	c := scene(t, l, what, lately)
	c.most = most
	return c
}

// lately: the position was stored a moment ago, so that events have come since, and not so long ago
// that it is stored again before the fault strikes. It is stored once a second.
const lately = "clock_timestamp() - updated_at between interval '150 ms' and interval '600 ms'"

// scene notes how things are when a condition on the row of the position is true: how far the log is
// durable, and what is stored, both at one moment. It isn't the newest id: ids aren't in the order of
// commits, so that an event with a smaller one may have been committed only after the fault.
func scene(t *testing.T, l *lab.Lab, what, when string) crime {
	t.Helper()
	c := crime{what: what, ends: l.WaitEnds()}
	sql := "select pg_current_wal_flush_lsn() || ' ' || stored from cdc_relay.checkpoint where " + when
	lab.Until(t, "a moment at which "+when, func(context.Context) (bool, error) {
		seen := l.One(sql)
		durable, stored, found := strings.Cut(seen, " ")
		if !found {
			return false, nil
		}
		var err error
		if c.durable, err = wal.ParseLSN(durable); err == nil {
			c.stored, err = wal.ParseLSN(stored)
		}
		return err == nil, err
	}, nil)
	return c
}

// sealed takes the stored position as it is after the fault: where it has moved since, the count of
// what was unconfirmed is only smaller.
func (c crime) sealed(l *lab.Lab) crime {
	c.stored = l.Stored()
	return c
}

// unconfirmed counts for each crime the events that were committed before it and lie past what was
// stored: a record's position tells its commit. Crimes are in the order of time, so that neither
// what they had stored nor what was durable steps back.
func unconfirmed(crimes []crime, records []oracle.Record) []int {
	steps := make([]int, len(crimes)+1)
	for r := range firsts(records) {
		commit := wal.LSN(r.Position.Commit)
		from := sort.Search(len(crimes), func(i int) bool { return crimes[i].durable > commit })
		to := sort.Search(len(crimes), func(i int) bool { return crimes[i].stored > commit })
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

// verdict waits until all is published, has the oracle judge the topic and judge what the crimes did,
// and returns what is in the topic.
func verdict(t *testing.T, l *lab.Lab, crimes []crime) []oracle.Record {
	t.Helper()
	l.Settle()
	r, got := l.Judge("outbox_events")
	t.Logf("\n%s", r)
	if !r.Clean() {
		t.Errorf("not clean after %d faults", len(crimes))
	}
	judge(t, crimes, got)
	return got
}

// judge fails for each crime that struck when everything was confirmed, and where records are out of
// order among themselves, repeats too.
func judge(t *testing.T, crimes []crime, records []oracle.Record) {
	t.Helper()
	again, read := repeats(crimes, records), readings(crimes, records)
	if read[0] > 1 {
		t.Errorf("before any fault the records of a key aren't in order")
	}
	for i, n := range unconfirmed(crimes, records) {
		c := crimes[i]
		t.Logf("%-42s %6d events unconfirmed past %-12s %6d repeats of %d readings", c.what, n, c.stored, again[i], read[i+1])
		if read[i+1] > c.most {
			t.Errorf("%s: the records of a key came in %d rising series, want %d: repeats are out of order among themselves", c.what, read[i+1], c.most)
		}
		if n == 0 {
			t.Errorf("%s: nothing was unconfirmed, so the round proves nothing", c.what)
		}
	}
}
