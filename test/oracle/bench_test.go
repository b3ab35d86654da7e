package oracle_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/cdc-relay/cdc-relay/test/oracle"
)

// made are n events of a thousand keys and their records, each event once.
func made(n int) ([]oracle.Expected, []oracle.Record) {
	want, got := make([]oracle.Expected, n), make([]oracle.Record, n)
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = fmt.Sprintf("w%d-%d", i/20, i)
	}
	for i := range n {
		key := keys[i%len(keys)]
		want[i] = oracle.Expected{ID: fmt.Sprintf("order.created:%s:%d", key, i), Key: key, Order: int64(i), Partition: int32(i % 4), Txn: uint32(i/8) + 3}
		got[i] = oracle.Record{
			ID: fmt.Sprintf("order.created:%s:%d", key, i), Partition: int32(i % 4), Offset: int64(i / 4),
			Position: oracle.Position{Lineage: 1, Commit: 1 + uint64(i/8), Seq: uint32(i % 8)},
		}
	}
	slices.SortStableFunc(got, func(a, b oracle.Record) int { return int(a.Partition - b.Partition) }) // as ReadTopic returns them
	return want, got
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkCheck judges events, and says what one takes: kept, from the table and the topic,
// and allocated in addition while it is judged.
func BenchmarkCheck(b *testing.B) {
	const n = 500_000
	before := heap()
	want, got := made(n)
	kept := heap() - before
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		if rep := oracle.Check(want, got); !rep.Once() {
			b.Fatal(rep)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/event")
	b.ReportMetric(float64(kept)/n, "kept-B/event")
	runtime.KeepAlive(want)
	runtime.KeepAlive(got)
}
