package crash

import (
	"slices"
	"testing"

	"github.com/cdc-relay/cdc-relay/test/oracle"
)

// TestReadings: repeats in order are one reading more, out of order they are many.
func TestReadings(t *testing.T) {
	for _, c := range []struct {
		name    string
		commits []uint64
		want    int
	}{
		{"in order", []uint64{1, 2, 3, 4}, 1},
		{"again from 2", []uint64{1, 2, 3, 4, 2, 3, 4, 5}, 2},
		{"one woken beside its successor", []uint64{1, 2, 6, 3, 7, 4, 8, 5, 9, 6, 10, 7, 11}, 2},
		{"again, in reverse", []uint64{1, 2, 3, 4, 5, 4, 3, 2}, 4},
		{"again, and two of them exchanged", []uint64{1, 2, 3, 4, 1, 3, 2, 4}, 3},
		{"twice", []uint64{1, 2, 2, 3}, 2},
		{"three readings", []uint64{1, 2, 3, 1, 2, 3, 1, 2, 3}, 3},
	} {
		var records []oracle.Record
		for i, commit := range c.commits {
			p := oracle.Position{Lineage: 1, Commit: commit}
			records = append(records, oracle.Record{Key: 7, Offset: int64(i), Position: p},
				// Another key, and another partition, are in order by themselves.
				oracle.Record{Key: 8, Offset: int64(i), Position: oracle.Position{Lineage: 1, Commit: uint64(i)}},
				oracle.Record{Key: 7, Partition: 1, Offset: int64(i), Position: oracle.Position{Lineage: 1, Commit: 50, Seq: uint32(i)}})
		}
		if got := readings(nil, records); got[0] != c.want {
			t.Errorf("%s: %d readings, want %d", c.name, got[0], c.want)
		}
		// Each record lies between two crimes of its own.
		var crimes []crime
		for i := range c.commits {
			crimes = append(crimes, crime{ends: map[int32]int64{0: int64(i), 1: int64(i)}})
		}
		if got := readings(crimes, records); slices.Max(got) != 1 || got[0] != 0 {
			t.Errorf("%s, one by one: %v, want none before the crimes and one in each", c.name, got)
		}
	}
}
