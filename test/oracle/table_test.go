package oracle_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/internal/devenv/envtest"
	"github.com/cdc-relay/cdc-relay/test/lab"
	"github.com/cdc-relay/cdc-relay/test/oracle"
)

func TestMain(m *testing.M) { envtest.Main(m, lab.Cleanup) }

// The published vectors of the partition function: key, then its partition at each count.
var partitionCounts = []int32{1, 3, 12, 16, 24, 100}

var vectors = []struct {
	key  string
	want []int32
}{
	{"order:A-1", []int32{0, 0, 0, 12, 12, 92}},
	{"order:A-2", []int32{0, 1, 10, 6, 22, 30}},
	{"customer:42", []int32{0, 0, 3, 11, 3, 15}},
	{"", []int32{0, 1, 4, 4, 4, 52}},
	{"ключ", []int32{0, 1, 4, 0, 16, 24}},
	{strings.Repeat("a", 300), []int32{0, 0, 3, 11, 3, 67}},
}

func TestFromTablePartitions(t *testing.T) {
	ctx, conn := database(t)
	for _, v := range vectors {
		if _, err := conn.Exec(ctx, `insert into oracle_events (entity_id, event_type, payload) values ($1, 'v', '{}')`, v.key); err != nil {
			t.Fatal(err)
		}
	}
	for n, count := range partitionCounts {
		got, err := oracle.FromTable(ctx, conn, oracle.TableQuery{Table: "oracle_events", Partitions: count})
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(vectors) {
			t.Fatalf("%d events, want %d", len(got), len(vectors))
		}
		for _, v := range vectors {
			i := slices.IndexFunc(got, func(e oracle.Expected) bool { return e.Key == v.key })
			if i < 0 {
				t.Fatalf("key %.20q is not there", v.key)
			}
			if got[i].Partition != v.want[n] {
				t.Errorf("key %.20q of %d partitions: %d, want %d", v.key, count, got[i].Partition, v.want[n])
			}
			if got[i].RecordKey != oracle.Sum([]byte(v.key)) {
				t.Errorf("key %.20q: SQL and Go differ on its digest", v.key)
			}
		}
	}
}

func TestFromTableIdentity(t *testing.T) {
	ctx, conn := database(t)
	const insert = `insert into oracle_events (id, entity_id, event_type, payload) values
		(-7, 'o-1', 'made', '{"b":1, "a":1.10}'), (9, NULL, 'made', NULL), (10, '', 'gone', '"é"')`
	if _, err := conn.Exec(ctx, insert); err != nil {
		t.Fatal(err)
	}
	got, err := oracle.FromTable(ctx, conn, oracle.TableQuery{Table: "oracle_events", Partitions: 12})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(got, func(a, b oracle.Expected) int { return int(a.Order - b.Order) })
	want := []oracle.Expected{
		{ID: "made:o-1:-7", Key: "o-1", Order: -7, RecordKey: oracle.Sum([]byte("o-1")), Value: oracle.Sum([]byte(`{"a": 1.10, "b": 1}`))},
		{ID: "made::9", Key: "made::9", Order: 9, RecordKey: oracle.Null, Value: oracle.Null},
		{ID: "gone::10", Key: "", Order: 10, RecordKey: oracle.Sum([]byte{}), Value: oracle.Sum([]byte(`"é"`))},
	}
	for i := range want {
		if got[i].Txn == 0 || got[i].Txn != got[0].Txn || got[i].Promised == oracle.Any || got[i].Timestamp == 0 {
			t.Errorf("event %d tells too little: %+v", i, got[i])
		}
		want[i].Partition = got[i].Partition // the vectors' business
		want[i].Txn, want[i].Promised, want[i].Timestamp = got[i].Txn, got[i].Promised, got[i].Timestamp
		if got[i] != want[i] {
			t.Errorf("event %d:\n got %+v\nwant %+v", i, got[i], want[i])
		}
	}
	other, err := oracle.FromTable(ctx, conn, oracle.TableQuery{
		Table: "oracle_events", Where: "id > 0", ID: "id::text", Key: "event_type", Order: "-id", Value: oracle.Skip,
		Headers: oracle.Skip, Created: oracle.Skip, Updated: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range other {
		if e.Partition != -1 || e.Value != oracle.Any || e.Order >= 0 || !strings.Contains("9 10", e.ID) ||
			e.Promised != oracle.Any || e.Timestamp != 0 || e.Txn != 0 {
			t.Errorf("got %+v", e)
		}
	}
	if len(other) != 2 {
		t.Errorf("%d events, want 2", len(other))
	}
}

// An event without a key goes where its ID as a key would go.
func TestFromTableNullKey(t *testing.T) {
	ctx, conn := database(t)
	const insert = `insert into oracle_events (id, entity_id, event_type) values (9, NULL, 'made'), (10, 'made::9', 'made')`
	if _, err := conn.Exec(ctx, insert); err != nil {
		t.Fatal(err)
	}
	got, err := oracle.FromTable(ctx, conn, oracle.TableQuery{Table: "oracle_events", Partitions: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].Partition != got[1].Partition {
		t.Errorf("got %+v, want two events in one partition", got)
	}
}

// A partitioned outbox has its transactions in its partitions.
func TestFromTablePartitioned(t *testing.T) {
	ctx, conn := database(t)
	const make = `create temp table parted (like oracle_events including defaults) partition by range (id);
		create temp table parted_1 partition of parted for values from (minvalue) to (10);
		create temp table parted_2 partition of parted for values from (10) to (maxvalue);
		insert into parted (id, entity_id, event_type) values (1, 'a', 'made'), (11, 'a', 'made')`
	if _, err := conn.Exec(ctx, make); err != nil {
		t.Fatal(err)
	}
	got, err := oracle.FromTable(ctx, conn, oracle.TableQuery{Table: "parted", Partitions: 12})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].Txn == 0 || got[0].Txn != got[1].Txn || got[0].Timestamp == 0 {
		t.Errorf("got %+v", got)
	}
}

func TestFromTableNamesWhatIsWrong(t *testing.T) {
	ctx, conn := database(t)
	_, err := oracle.FromTable(ctx, conn, oracle.TableQuery{Table: "no_such_table"})
	if err == nil || !strings.Contains(err.Error(), "no_such_table") {
		t.Errorf("got %v", err)
	}
}

// database connects to the tests' Postgres and makes an outbox table that ends with the
// session.
func database(t *testing.T) (context.Context, *pgx.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	conn, err := pgx.Connect(ctx, envtest.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) }) // the test's verdict stands already
	_, err = conn.Exec(ctx, `create temp table oracle_events (
		id bigserial primary key, entity_id text, event_type text not null, payload jsonb,
		created_at timestamptz default clock_timestamp(), headers json)`)
	if err != nil {
		t.Fatal(err)
	}
	return ctx, conn
}
