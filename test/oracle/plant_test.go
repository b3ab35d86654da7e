package oracle_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-relay/cdc-relay/internal/devenv/envtest"
	"github.com/cdc-relay/cdc-relay/test/oracle"
)

const partitions = 3

// plan is a correct topic: 6 keys, two per partition, 8 events each, interleaved.
func plan() ([]*kgo.Record, []oracle.Expected) {
	var recs []*kgo.Record
	var want []oracle.Expected
	for n := range 8 {
		for k := range 6 {
			key, id := "key-"+strconv.Itoa(k), fmt.Sprintf("t:key-%d:%d", k, n)
			recs = append(recs, &kgo.Record{
				Topic: "t", Partition: int32(k % partitions), Key: []byte(key), Value: []byte("value " + id),
				Timestamp: time.UnixMilli(1_700_000_000_123 + int64(n)),
				Headers: []kgo.RecordHeader{
					{Key: "dedupe_key", Value: []byte(id)},
					{Key: "position", Value: fmt.Appendf(nil, "0001:%016X:%010d", n+1, k)},
					{Key: "trace", Value: nil},
				},
			})
			want = append(want, oracle.Expected{
				ID: id, Key: key, Partition: int32(k % partitions), Order: int64(n),
				RecordKey: oracle.Sum([]byte(key)), Value: oracle.Sum([]byte("value " + id)),
			})
		}
	}
	return recs, want
}

// at finds a planned record.
func at(recs []*kgo.Record, id string) int {
	return slices.IndexFunc(recs, func(r *kgo.Record) bool { return string(r.Headers[0].Value) == id })
}

// clone copies a record so that one of two can be changed.
func clone(r *kgo.Record) *kgo.Record {
	c := *r
	c.Headers = slices.Clone(r.Headers)
	return &c
}

func swap(recs []*kgo.Record, a, b string) []*kgo.Record {
	i, j := at(recs, a), at(recs, b)
	recs[i], recs[j] = recs[j], recs[i]
	return recs
}

// again appends a changed copy of a record.
func again(id string, change func(*kgo.Record)) func([]*kgo.Record) []*kgo.Record {
	return func(recs []*kgo.Record) []*kgo.Record {
		c := clone(recs[at(recs, id)])
		change(c)
		return append(recs, c)
	}
}

// edit changes a record in place.
func edit(id string, change func(*kgo.Record)) func([]*kgo.Record) []*kgo.Record {
	return func(recs []*kgo.Record) []*kgo.Record {
		i := at(recs, id)
		recs[i] = clone(recs[i])
		change(recs[i])
		return recs
	}
}

// counts are findings by kind.
type counts map[oracle.Kind]int

// Which finding a planted fault must name: that of one event, or of several.
const plantedID, several = "t:key-2:4", "*"

var plantedFaults = []struct {
	name  string
	plant func([]*kgo.Record) []*kgo.Record
	want  counts
	id    string // that the finding must name
	clean bool
}{
	{"nothing", func(r []*kgo.Record) []*kgo.Record { return r }, nil, "", true},
	{"missing", func(r []*kgo.Record) []*kgo.Record {
		i := at(r, plantedID)
		return slices.Delete(r, i, i+1)
	}, counts{oracle.Missing: 1}, plantedID, false},
	{
		"unknown", again(plantedID, func(r *kgo.Record) { r.Headers[0].Value = []byte("t:key-2:99") }),
		counts{oracle.Unknown: 1},
		"t:key-2:99", false,
	},
	{
		"without an ID", again(plantedID, func(r *kgo.Record) { r.Headers = r.Headers[1:] }),
		counts{oracle.Unknown: 1},
		"", false,
	},
	{"repeated", again(plantedID, func(*kgo.Record) {}), counts{oracle.Repeated: 1}, plantedID, true},
	{"moved", edit(plantedID, func(r *kgo.Record) { r.Partition = 0 }), counts{oracle.Moved: 1}, plantedID, false},
	{
		"repeat moved", again(plantedID, func(r *kgo.Record) { r.Partition = 1 }),
		counts{oracle.Moved: 1, oracle.Repeated: 1},
		plantedID, false,
	},
	{
		"backward", func(r []*kgo.Record) []*kgo.Record { return swap(r, "t:key-2:4", "t:key-2:5") },
		counts{oracle.Backward: 1, oracle.Stale: 1},
		plantedID, false,
	},
	{"early by two", func(r []*kgo.Record) []*kgo.Record {
		return swap(swap(r, "t:key-2:4", "t:key-2:6"), "t:key-2:4", "t:key-2:5")
	}, counts{oracle.Backward: 2, oracle.Stale: 2}, several, false},
	{
		"other key first", func(r []*kgo.Record) []*kgo.Record { return swap(r, "t:key-2:4", "t:key-5:4") },
		nil, "", true,
	},
	{
		"stale position", edit(plantedID, func(r *kgo.Record) { r.Headers[1].Value = []byte("0001:0000000000000001:0000000009") }),
		counts{oracle.Stale: 1, oracle.Misnumbered: 1},
		plantedID, false,
	},
	{
		"position of another event", edit(plantedID, func(r *kgo.Record) { r.Headers[1].Value = []byte("0001:0000000000000005:0000000003") }),
		counts{oracle.Misnumbered: 1},
		several, false,
	},
	{
		"position of a later event, moved", edit(plantedID, func(r *kgo.Record) {
			r.Partition, r.Headers[1].Value = 1, []byte("0001:0000000000000001:0000000007")
		}),
		counts{oracle.Misnumbered: 1, oracle.Moved: 1},
		plantedID, false,
	},
	{
		"position in lower case", edit(plantedID, func(r *kgo.Record) { r.Headers[1].Value = []byte("0001:000000000000000a:0000000002") }),
		counts{oracle.Misnumbered: 1},
		plantedID, false,
	},
	{
		"repeat with another position", again(plantedID, func(r *kgo.Record) { r.Headers[1].Value = []byte("0001:0000000000000009:0000000002") }),
		counts{oracle.Repeated: 1, oracle.Differing: 1},
		plantedID, false,
	},
	{"other key bytes", edit(plantedID, func(r *kgo.Record) { r.Key = []byte("key-3") }), counts{oracle.Altered: 1}, plantedID, false},
	{"null value", edit(plantedID, func(r *kgo.Record) { r.Value = nil }), counts{oracle.Altered: 1}, plantedID, false},
	{
		"value with a space more", edit(plantedID, func(r *kgo.Record) { r.Value = append([]byte(nil), append(r.Value, ' ')...) }),
		counts{oracle.Altered: 1},
		plantedID, false,
	},
	{
		"repeat with another key", again(plantedID, func(r *kgo.Record) { r.Key = []byte{} }),
		counts{oracle.Repeated: 1, oracle.Differing: 1, oracle.Altered: 1},
		plantedID, false,
	},
	{
		"repeat with another timestamp", again(plantedID, func(r *kgo.Record) { r.Timestamp = r.Timestamp.Add(time.Millisecond) }),
		counts{oracle.Repeated: 1, oracle.Differing: 1},
		plantedID, false,
	},
	{"repeat with a header more", again(plantedID, func(r *kgo.Record) {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: "x"})
	}), counts{oracle.Repeated: 1, oracle.Differing: 1}, plantedID, false},
	{
		"repeat with an empty header for a null one", again(plantedID, func(r *kgo.Record) { r.Headers[2].Value = []byte{} }),
		counts{oracle.Repeated: 1, oracle.Differing: 1},
		plantedID, false,
	},
	{
		"repeat with headers in another order", again(plantedID, func(r *kgo.Record) { slices.Reverse(r.Headers) }),
		counts{oracle.Repeated: 1, oracle.Differing: 1},
		plantedID, false,
	},
}

func TestPlantedFaults(t *testing.T) {
	t.Run("embedded", func(t *testing.T) { plantAll(t, func(t *testing.T) ([]string, string) { return broker(t), "t" }) })
	t.Run("real", func(t *testing.T) {
		brokers := envtest.Kafka(t).Brokers()
		plantAll(t, func(t *testing.T) ([]string, string) { return brokers, envtest.Topic(t, brokers, partitions) })
	})
}

func plantAll(t *testing.T, topic func(*testing.T) (brokers []string, name string)) {
	for _, tc := range plantedFaults {
		t.Run(tc.name, func(t *testing.T) {
			recs, want := plan()
			brokers, name := topic(t)
			rep := judgeIn(t, brokers, name, tc.plant(recs), want)
			for k, n := range tally(rep) {
				if n != tc.want[k] {
					t.Errorf("%d %s, want %d", n, k, tc.want[k])
				}
			}
			if rep.Clean() != tc.clean {
				t.Errorf("clean is %v, want %v", rep.Clean(), tc.clean)
			}
			if rep.Once() != (tc.clean && rep.Repeated == 0) {
				t.Errorf("once is %v with %d repeats", rep.Once(), rep.Repeated)
			}
			for _, f := range rep.Findings {
				if f.ID != tc.id && tc.id != several {
					t.Errorf("%s names %q, want %q", f.Kind, f.ID, tc.id)
				}
			}
			if len(rep.Findings) == 0 && tc.want != nil {
				t.Error("nothing was named")
			}
			if text := rep.String(); !tc.clean && tc.id != "" && tc.id != several && !strings.Contains(text, strconv.Quote(tc.id)) {
				t.Errorf("the report does not name %q:\n%s", tc.id, text)
			}
			if t.Failed() {
				t.Logf("\n%s", rep)
			}
		})
	}
}

// A relay that publishes again from a stored position makes one step back per key; repeats in a
// wrong order among themselves make more.
func TestRewinds(t *testing.T) {
	recs, want := plan()
	crash := append(slices.Clone(recs[:30]), recs[12:]...)
	rep := judge(t, crash, want)
	if !rep.Clean() || rep.Repeated != 18 || rep.Rewinds != 1 {
		t.Errorf("a repeated run: clean %v, %d repeated, %d rewinds\n%s", rep.Clean(), rep.Repeated, rep.Rewinds, rep)
	}
	back := slices.Clone(recs[12:30])
	slices.Reverse(back)
	rep = judge(t, append(append(slices.Clone(recs[:30]), back...), recs[30:]...), want)
	if rep.Rewinds < 2 {
		t.Errorf("a repeated run in reverse: %d rewinds\n%s", rep.Rewinds, rep)
	}
}

// Two expected events with one ID, or with one order in a key, would blind the comparison.
func TestAmbiguousExpectation(t *testing.T) {
	recs, want := plan()
	if rep := judge(t, recs, append(want, want[7])); rep.Ambiguous != 1 || rep.Clean() {
		t.Errorf("one ID twice: %d ambiguous, clean %v", rep.Ambiguous, rep.Clean())
	}
	want[12].Order = want[6].Order
	if rep := judge(t, recs, want); rep.Backward != 1 {
		t.Errorf("one order twice in a key: %d backward", rep.Backward)
	}
}

// Without known partitions the events of a key must only be together.
func TestPartitionsUnknown(t *testing.T) {
	recs, want := plan()
	for i := range want {
		want[i].Partition = -1
	}
	if rep := judge(t, recs, want); !rep.Once() {
		t.Errorf("not clean:\n%s", rep)
	}
	recs, _ = plan()
	if rep := judge(t, edit("t:key-2:4", func(r *kgo.Record) { r.Partition = 0 })(recs), want); rep.Moved == 0 {
		t.Errorf("a key in two partitions went unseen:\n%s", rep)
	}
}

func TestReportCountsAndCuts(t *testing.T) {
	recs, want := plan()
	rep := judge(t, recs[:12], want)
	if rep.Expected != 48 || rep.Records != 12 || rep.Events != 12 || rep.Missing != 36 || len(rep.Findings) != 10 {
		t.Errorf("got %+v", rep)
	}
	for _, p := range rep.Partitions {
		if p.Keys != 2 || p.Events != 4 || p.Repeats != 0 {
			t.Errorf("partition %d: %+v", p.Partition, p)
		}
	}
	if s := rep.String(); !strings.Contains(s, "and 26 more") || !strings.Contains(s, "NOT CLEAN") {
		t.Errorf("got:\n%s", s)
	}
}

func tally(r oracle.Report) map[oracle.Kind]int {
	return map[oracle.Kind]int{
		oracle.Missing: r.Missing, oracle.Unknown: r.Unknown, oracle.Moved: r.Moved, oracle.Backward: r.Backward,
		oracle.Stale: r.Stale, oracle.Altered: r.Altered, oracle.Differing: r.Differing,
		oracle.Ambiguous: r.Ambiguous, oracle.Misnumbered: r.Misnumbered, oracle.Repeated: r.Repeated,
	}
}

// judge is judgeIn with a broker of its own.
func judge(t *testing.T, recs []*kgo.Record, want []oracle.Expected) oracle.Report {
	t.Helper()
	return judgeIn(t, broker(t), "t", recs, want)
}

// judgeIn writes records to an empty topic, in order, and lets the oracle read it.
func judgeIn(t *testing.T, brokers []string, topic string, recs []*kgo.Record, want []oracle.Expected) oracle.Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for i, r := range recs {
		recs[i] = clone(r)
		recs[i].Topic = topic
	}
	write(ctx, t, brokers, recs)
	got, err := oracle.ReadTopic(ctx, brokers, topic)
	if err != nil {
		t.Fatal(err)
	}
	return oracle.Check(want, got)
}

func broker(t *testing.T) []string {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, "t"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c.ListenAddrs()
}

func write(ctx context.Context, t *testing.T, brokers []string, recs []*kgo.Record) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for _, r := range recs { // a record planted twice needs a struct of its own
		if err := cl.ProduceSync(ctx, clone(r)).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}
