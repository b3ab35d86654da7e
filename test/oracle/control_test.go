package oracle_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-relay/cdc-relay/test/oracle"
)

// controlRow is a row of an outbox, with what its record must be, written down by hand.
type controlRow struct {
	id        int64
	entity    any // string or nil
	created   string
	headers   any // string or nil
	payload   any // string or nil
	ms        int64
	far       bool // more than 24 hours from its commit
	ordering  string
	rowHeader []kgo.RecordHeader
	value     string
}

var controlRows = []controlRow{
	{
		id: 1, entity: "order:A-1", created: "now", payload: `{"b":1, "a":1.10}`, value: `{"a": 1.10, "b": 1}`,
		headers:   `{ "trace" : "a\"\u00e9" , "n":1.0e2, "x":null, "trace":[1, {"a":2}], "position":"p", "source":true, "":"" }`,
		rowHeader: headers("trace", `a"é`, "n", "1.0e2", "x", nil, "trace", `[1, {"a":2}]`, "row-position", "p", "row-source", "true", "", ""),
	},
	{id: 2, entity: nil, created: "now", payload: `"é"`, value: `"é"`, headers: `{}`},
	{id: 3, entity: "", created: "now", payload: `null`, value: "null"},
	{id: 4, entity: "ключ", created: "now", payload: nil},
	{id: 5, entity: "ключ", created: "1969-12-31 23:59:59.9995+00", ms: -1, far: true, payload: `1`, value: "1", ordering: "-000000000001:00000000000000000005"},
	{id: 6, entity: "ключ", created: "1970-01-01 00:00:00+00", far: true, payload: `1`, value: "1", ordering: "0000000000000:00000000000000000006"},
	{
		id: 9223372036854775807, entity: "ключ", created: "294276-12-31 23:59:59.999999+00", far: true, payload: `2`, value: "2",
		ordering: "9224318015999999:09223372036854775807",
	},
	{
		id: -9223372036854775808, entity: "b", created: "4714-11-24 00:00:00+00 BC", far: true, payload: `3`, value: "3",
		ordering: "-210866803200000:-9223372036854775808",
	},
	{id: -7, entity: "b", created: "now", payload: `3`, value: "3"},
}

// headers makes a list of names and values, of which nil is null.
func headers(pairs ...any) []kgo.RecordHeader {
	var hs []kgo.RecordHeader
	for c := range slices.Chunk(pairs, 2) {
		h := kgo.RecordHeader{Key: c[0].(string)}
		if v, ok := c[1].(string); ok {
			h.Value = []byte(v)
		}
		hs = append(hs, h)
	}
	return hs
}

// control fills a table, and returns the right records of its rows.
func control(ctx context.Context, t *testing.T, conn *pgx.Conn) []*kgo.Record {
	t.Helper()
	now := time.Now().Truncate(time.Microsecond)
	tx, err := conn.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range controlRows {
		created := r.created
		if created == "now" {
			created = now.Format(time.RFC3339Nano)
		}
		_, err := tx.Exec(ctx, `insert into oracle_events (id, entity_id, event_type, payload, created_at, headers) values ($1, $2, 'made', $3, $4::text::timestamptz, $5)`,
			r.id, r.entity, r.payload, created, r.headers)
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	committed := commitTime(ctx, t, conn)
	var recs []*kgo.Record
	for i, r := range controlRows {
		entity, _ := r.entity.(string)
		id := fmt.Sprintf("made:%s:%d", entity, r.id)
		if !r.far {
			r.ms = now.UnixMilli()
			r.ordering = fmt.Sprintf("%013d:%020d", r.ms, r.id)
		}
		rec := &kgo.Record{Topic: "t", Timestamp: time.UnixMilli(r.ms)}
		if r.far {
			rec.Timestamp = committed
		}
		if r.entity != nil {
			rec.Key = []byte(entity)
		}
		if r.payload != nil {
			rec.Value = []byte(r.value)
		}
		rec.Headers = append(headers("event_id", id, "event_type", "made", "dedupe_key", id, "ordering_key", r.ordering,
			"position", fmt.Sprintf("0001:%016X:%010d", 0x1A2B3C, i)), r.rowHeader...)
		recs = append(recs, rec)
	}
	return recs
}

// commitTime is that of the table's first row, or any where the server doesn't track it.
func commitTime(ctx context.Context, t *testing.T, conn *pgx.Conn) time.Time {
	t.Helper()
	at := time.Now()
	var tracked bool
	if err := conn.QueryRow(ctx, "select current_setting('track_commit_timestamp')::bool").Scan(&tracked); err != nil {
		t.Fatal(err)
	}
	if tracked {
		if err := conn.QueryRow(ctx, "select pg_xact_commit_timestamp(xmin) from oracle_events limit 1").Scan(&at); err != nil {
			t.Fatal(err)
		}
	}
	return at
}

// header replaces the value of a record's header.
func header(name, value string) func(*kgo.Record) {
	return func(r *kgo.Record) {
		i := slices.IndexFunc(r.Headers, func(h kgo.RecordHeader) bool { return h.Key == name })
		r.Headers[i].Value = []byte(value)
	}
}

// The record of the first row is planted wrong in one thing that only the table can tell.
var tableFaults = []struct {
	name  string
	plant func(*kgo.Record)
	want  oracle.Kind
	says  string
}{
	{"event_id", header("event_id", "made:order:A-1:2"), oracle.Altered, "headers"},
	{"event_type", header("event_type", "Made"), oracle.Altered, "headers"},
	{"ordering_key of another time", header("ordering_key", "1700000000000:00000000000000000001"), oracle.Altered, "headers"},
	{"ordering_key is the position", header("ordering_key", "0001:00000000001A2B3C:0000000000"), oracle.Altered, "headers"},
	{"no position", func(r *kgo.Record) { r.Headers = slices.Delete(r.Headers, 4, 5) }, oracle.Altered, "headers"},
	{"a header more", func(r *kgo.Record) { r.Headers = append(r.Headers, headers("x", "y")...) }, oracle.Altered, "headers"},
	{"a header less", func(r *kgo.Record) { r.Headers = r.Headers[:len(r.Headers)-1] }, oracle.Altered, "headers"},
	{"headers in another order", func(r *kgo.Record) { r.Headers[0], r.Headers[1] = r.Headers[1], r.Headers[0] }, oracle.Altered, "headers"},
	{"a number printed anew", header("n", "100"), oracle.Altered, "headers"},
	{"null as text", header("x", "null"), oracle.Altered, "headers"},
	{"the reserved name as it is", func(r *kgo.Record) { r.Headers[9].Key = "position" }, oracle.Altered, "headers"},
	{"timestamp", func(r *kgo.Record) { r.Timestamp = r.Timestamp.Add(time.Millisecond) }, oracle.Altered, "timestamp"},
	{"value printed anew", func(r *kgo.Record) { r.Value = []byte(`{"a":1.1,"b":1}`) }, oracle.Altered, "value"},
	{"another commit than the rest", header("position", "0001:00000000001A2B3B:0000000000"), oracle.Misnumbered, "one transaction"},
	{"another lineage than the rest", header("position", "0002:00000000001A2B3C:0000000000"), oracle.Misnumbered, "one transaction"},
	{"no number", header("position", "0001:00000000001A2B3C:4294967296"), oracle.Misnumbered, "holds no position"},
	{"lineage 0", header("position", "0000:00000000001A2B3C:0000000000"), oracle.Misnumbered, "holds no position"},
	{"empty position", header("position", ""), oracle.Misnumbered, "holds no position"},
}

func TestTableControl(t *testing.T) {
	ctx, conn := database(t)
	recs := control(ctx, t, conn)
	query := oracle.TableQuery{Table: "oracle_events", Partitions: partitions, Headers: "headers"}
	want, err := oracle.FromTable(ctx, conn, query)
	if err != nil {
		t.Fatal(err)
	}
	byID := map[string]oracle.Expected{}
	for _, e := range want {
		byID[e.ID] = e
	}
	for _, r := range recs {
		r.Partition = byID[string(r.Headers[2].Value)].Partition // the vectors' business
	}
	t.Run("clean", func(t *testing.T) {
		if rep := judge(t, recs, want); !rep.Once() || rep.Events != len(controlRows) {
			t.Errorf("the right records are not clean:\n%s", rep)
		}
	})
	for _, tc := range tableFaults {
		t.Run(tc.name, func(t *testing.T) {
			planted := slices.Clone(recs)
			planted[0] = clone(planted[0])
			tc.plant(planted[0])
			rep := judge(t, planted, want)
			i := slices.IndexFunc(rep.Findings, func(f oracle.Finding) bool { return f.Kind == tc.want && strings.Contains(f.Detail, tc.says) })
			if i < 0 || rep.Clean() {
				t.Errorf("want %s that says %q:\n%s", tc.want, tc.says, rep)
			}
		})
	}
}

// Every row's record is looked at, whatever is special about it.
func TestTableControlEveryRow(t *testing.T) {
	ctx, conn := database(t)
	recs := control(ctx, t, conn)
	want, err := oracle.FromTable(ctx, conn, oracle.TableQuery{Table: "oracle_events", Headers: "headers"})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range recs {
		header("ordering_key", string(r.Headers[3].Value)+"0")(r)
	}
	if rep := judge(t, recs, want); rep.Altered != len(controlRows) {
		t.Errorf("%d altered of %d:\n%s", rep.Altered, len(controlRows), rep)
	}
}

// Where rows may have been updated, or the server doesn't track the times of commits, created_at
// is the timestamp of a row of today, and nobody knows that of others.
func TestTimestampsUntracked(t *testing.T) {
	ctx, conn := database(t)
	recs := control(ctx, t, conn)
	want, err := oracle.FromTable(ctx, conn, oracle.TableQuery{Table: "oracle_events", Headers: "headers", Updated: true})
	if err != nil {
		t.Fatal(err)
	}
	if rep := judge(t, recs, want); !rep.Once() {
		t.Errorf("the right records are not clean:\n%s", rep)
	}
	for i, r := range controlRows {
		j := slices.IndexFunc(want, func(e oracle.Expected) bool { return e.ID == string(recs[i].Headers[2].Value) })
		at := recs[i].Timestamp.UnixMilli()
		if r.far {
			at = 0
		}
		if want[j].Timestamp != at || want[j].Txn != 0 {
			t.Errorf("row %d: timestamp %d in transaction %d, want %d in 0", r.id, want[j].Timestamp, want[j].Txn, at)
		}
	}
}

// Where ids don't tell the order of commits, positions do, and may be the ordering keys.
func TestOrderByPosition(t *testing.T) {
	ctx, conn := database(t)
	recs := control(ctx, t, conn)
	query := oracle.TableQuery{Table: "oracle_events", Headers: "headers", Order: oracle.Skip, Ordering: oracle.Skip}
	want, err := oracle.FromTable(ctx, conn, query)
	if err != nil {
		t.Fatal(err)
	}
	if rep := judge(t, recs, want); rep.Altered != len(recs) {
		t.Errorf("the ordering keys are not the positions, and %d are altered:\n%s", rep.Altered, rep)
	}
	// Ids fall while positions rise: entities "b" and "ключ" have several events.
	slices.Reverse(recs)
	for i, r := range recs {
		position := fmt.Sprintf("0001:00000000001A2B3C:%010d", i)
		header("position", position)(r)
		header("ordering_key", position)(r)
	}
	if rep := judge(t, recs, want); !rep.Once() || rep.Rewinds != 0 {
		t.Errorf("in the order of positions, and not clean:\n%s", rep)
	}
	if rep := judge(t, slices.Concat(recs, recs[:7]), want); !rep.Clean() || rep.Rewinds != 1 {
		t.Errorf("published twice, %d rewinds:\n%s", rep.Rewinds, rep)
	}
	slices.Reverse(recs)
	if rep := judge(t, recs, want); rep.Stale == 0 || rep.Backward != 0 || rep.Misnumbered != 0 {
		t.Errorf("against the order of positions: %d stale, %d backward, %d misnumbered:\n%s", rep.Stale, rep.Backward, rep.Misnumbered, rep)
	}
}
