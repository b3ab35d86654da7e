package sql

import (
	"encoding/csv"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/decode"
	"github.com/cdc-relay/cdc-relay/decode/shape"
	"github.com/cdc-relay/cdc-relay/wal"
)

// The range of Postgres' timestamps, in seconds since 1970: from 4714-11-24 BC, and to before
// 294277-01-01 (src/include/datatype/timestamp.h).
const (
	timestampMin = -210866803200
	timestampEnd = 9224318016000
)

// instant is a timestamp in microseconds, in two parts since the whole doesn't fit 64 bits.
type instant struct{ sec, micros int64 }

func (i instant) time() time.Time { return time.Unix(i.sec, i.micros*1000).UTC() }

// ms is the epoch in milliseconds, floored.
func (i instant) ms() int64 { return i.sec*1000 + i.micros/1000 }

func instants(rnd *rand.Rand) []instant {
	out := []instant{{timestampMin, 0}, {timestampMin, 1}, {timestampEnd - 1, 999_999}, {timestampEnd - 1, 999_000}}
	// 0, and where the width of 13 is reached, with the sign too
	for _, sec := range []int64{0, -1, 1, 9_999_999_999, 10_000_000_000, -999_999_999, -1_000_000_000, -9_999_999_999, -10_000_000_000, 1_700_000_000, -62135596800} {
		for _, near := range []int64{-1, 0, 1} {
			for _, micros := range []int64{0, 1, 999, 1000, 1001, 500_000, 999_000, 999_999} {
				out = append(out, instant{sec + near, micros})
			}
		}
	}
	for range 3000 {
		out = append(out, instant{timestampMin + rnd.Int64N(timestampEnd-timestampMin), rnd.Int64N(1_000_000)})
		// as many small ones as great ones
		out = append(out, instant{rnd.Int64N(1<<(1+rnd.IntN(35))) * (1 - 2*rnd.Int64N(2)), rnd.Int64N(1_000_000)})
	}
	return out
}

func id(rnd *rand.Rand, i int) int64 {
	edges := []int64{math.MinInt64, math.MinInt64 + 1, math.MaxInt64, -1, 0, 1, 1e18, -1e18, 1e18 - 1, 1 - 1e18}
	if i < len(edges) {
		return edges[i]
	}
	return int64(rnd.Uint64()) >> rnd.IntN(63)
}

// TestTriggerIsGo: what the trigger fills is what the relay derives from the same row as the
// stream prints it, and what C's printf makes of the numbers, over the whole range of both.
func TestTriggerIsGo(t *testing.T) {
	conn, _ := database(t)
	setUp(t, conn, Options{})
	exec(t, conn, `set timezone = 'UTC'; set datestyle = 'ISO, YMD'`)
	rnd := rand.New(rand.NewPCG(3, 4))
	want := map[int64]string{}
	var rows [][]any
	for i, at := range instants(rnd) {
		n := id(rnd, i)
		if _, taken := want[n]; taken {
			continue
		}
		want[n] = fmt.Sprintf("%013d:%020d", at.ms(), n)
		rows = append(rows, []any{n, "ent", "made", []byte(`{}`), at.time()})
	}
	if _, err := conn.CopyFrom(t.Context(), pgx.Identifier{"outbox_events"}, []string{"id", "entity_id", "event_type", "payload", "created_at"}, pgx.CopyFromRows(rows)); err != nil {
		t.Fatal(err)
	}

	s, rel := derive(t)
	got, err := conn.Query(t.Context(), `select id, created_at::text, dedupe_key, partition_key, ordering_key from outbox_events`)
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	var n int64
	var at, dedupe, partition, ordering string
	_, err = pgx.ForEachRow(got, []any{&n, &at, &dedupe, &partition, &ordering}, func() error {
		checked++
		ev := event(t, s, rel, n, at)
		if ordering != want[n] || ordering != header(ev, "ordering_key") {
			t.Errorf("id %d at %s: the trigger says %q, C %q, Go %q", n, at, ordering, want[n], header(ev, "ordering_key"))
		}
		if dedupe != ev.DedupeKey || dedupe != fmt.Sprintf("made:ent:%d", n) || partition != string(ev.Key) {
			t.Errorf("id %d: the trigger says %q and %q, Go %q and %q", n, dedupe, partition, ev.DedupeKey, ev.Key)
		}
		return nil
	})
	if err != nil || checked != len(want) || checked < 5000 {
		t.Errorf("checked %d of %d rows: %v", checked, len(want), err)
	}
}

// TestTriggerVectors: the file that any implementation of the key can be held against.
func TestTriggerVectors(t *testing.T) {
	f, err := os.Open("../decode/shape/testdata/ordering.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	vectors, err := csv.NewReader(f).ReadAll()
	if err != nil || len(vectors) < 50 {
		t.Fatalf("%d vectors, %v", len(vectors), err)
	}
	conn, _ := database(t)
	setUp(t, conn, Options{})
	for _, v := range vectors[1:] {
		n, err := strconv.ParseInt(v[2], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		got := one[string](t, conn, `insert into outbox_events (id, entity_id, event_type, payload, created_at, dedupe_key)
			values ($1, 'e', 't', '{}', $2::text::timestamptz, gen_random_uuid()::text)
			on conflict (id) do update set ordering_key = excluded.ordering_key returning ordering_key`, n, v[0])
		if got != v[3] {
			t.Errorf("id %s at %s: %q, want %q", v[2], v[0], got, v[3])
		}
	}
}

func TestTriggerLeavesAlone(t *testing.T) {
	conn, _ := database(t)
	setUp(t, conn, Options{})
	insert := func(columns, values string) (dedupe, partition string, ordering *string) {
		t.Helper()
		err := conn.QueryRow(t.Context(), `insert into outbox_events (event_type, payload, `+columns+`) values ('t', '{}', `+values+`)
			returning dedupe_key, partition_key, ordering_key`).Scan(&dedupe, &partition, &ordering)
		if err != nil {
			t.Fatal(err)
		}
		return dedupe, partition, ordering
	}
	if d, p, o := insert(`entity_id, dedupe_key, partition_key, ordering_key`, `'e', 'mine', '', 'o'`); d != "mine" || p != "" || *o != "o" {
		t.Errorf("filled keys were changed: %q %q %q", d, p, *o)
	}
	if d, p, o := insert(`id, entity_id, partition_key, created_at`, `7, '', 'own', '1970-01-01 UTC'`); d != "t::7" || p != "own" || *o != "0000000000000:00000000000000000007" {
		t.Errorf("some keys filled: %q %q %q", d, p, *o)
	}
	for _, at := range []string{"infinity", "-infinity"} {
		if _, _, o := insert(`entity_id, created_at`, `'e', '`+at+`'`); o != nil {
			t.Errorf("created_at %s: ordering key %q, want none", at, *o)
		}
	}
	// What the table itself forbids is said by the table, not by the trigger.
	for _, c := range []string{
		`insert into outbox_events (entity_id, event_type, payload, created_at) values ('e', 't', '{}', null)`,
		`insert into outbox_events (entity_id, event_type, payload) values ('e', null, '{}')`,
		`insert into outbox_events (entity_id, event_type, payload) values (null, 't', '{}')`,
		`insert into outbox_events (id, entity_id, event_type, payload) values (null, 'e', 't', '{}')`,
	} {
		if _, err := conn.Exec(t.Context(), c); err == nil || !strings.Contains(err.Error(), "violates not-null constraint") {
			t.Errorf("%s: %v", c, err)
		}
	}
	// Nor does the caller's search_path matter.
	exec(t, conn, `create schema evil; create function evil.lpad(text, int, text) returns text language sql as $$ select 'evil' $$;
		set search_path = evil, pg_catalog, public`)
	if _, _, o := insert(`id, entity_id, created_at`, `9, 'e', '1970-01-01 UTC'`); *o != "0000000000000:00000000000000000009" {
		t.Errorf("with another search_path: %q", *o)
	}
}

// TestLongNames: an index takes 2704 bytes at most. A key that the trigger makes too long for it
// would fail the application's insert.
func TestLongNames(t *testing.T) {
	conn, _ := database(t)
	setUp(t, conn, Options{})
	noise := make([]byte, 3000) // letters that don't compress
	rnd := rand.New(rand.NewPCG(5, 6))
	for i := range noise {
		noise[i] = byte('!' + rnd.IntN(90))
	}
	for _, n := range []int{2598, 2599, 2600, 2700, 3000} {
		got := one[*string](t, conn, `insert into outbox_events (id, entity_id, event_type, payload) values ($1, $2, 'tt', '{}') returning dedupe_key`,
			math.MinInt64+int64(n), string(noise[:n]))
		if want := fmt.Sprintf("tt:%s:%d", noise[:n], math.MinInt64+int64(n)); (got != nil) != (n+2 <= 2600) || got != nil && *got != want {
			t.Errorf("an entity id of %d bytes has the dedupe key %v", n, got)
		}
	}
}

// TestCreatedAtIsTheClock: now() is the transaction's start, so of two writers who take a lock
// and then insert, the later one could have the earlier key.
func TestCreatedAtIsTheClock(t *testing.T) {
	conn, url := database(t)
	setUp(t, conn, Options{})
	other := connect(t, url)
	exec(t, conn, `create table entity (id text primary key); insert into entity values ('e')`)
	insert := `insert into outbox_events (entity_id, event_type, payload) values ('e', 't', '{}')`
	lock := `select from entity where id = 'e' for update`

	exec(t, conn, `begin`)                                                          // begins first, locks last
	for !one[bool](t, conn, `select clock_timestamp() > now() + interval '3 ms'`) { // keys differ by whole ms
	}
	exec(t, other, `begin; `+lock+`; `+insert+`; commit`)
	exec(t, conn, lock+`; `+insert+`; commit`)
	if !one[bool](t, conn, `select array_agg(id order by ordering_key) = array_agg(id order by id) from outbox_events`) {
		t.Error("the keys of two writers under a lock contradict their order")
	}
}

func derive(t *testing.T) (*shape.Shape, *decode.Relation) {
	t.Helper()
	s, err := shape.New(shape.Config{Table: DefaultTable, Topic: "t"})
	if err != nil {
		t.Fatal(err)
	}
	rel := &decode.Relation{ID: 1, Schema: "public", Name: "outbox_events"}
	for _, c := range []struct {
		name string
		oid  uint32
	}{{"id", 20}, {"entity_id", 25}, {"event_type", 25}, {"payload", 3802}, {"created_at", 1184}} {
		rel.Columns = append(rel.Columns, decode.Column{Name: c.name, Type: c.oid})
	}
	return s, rel
}

func event(t *testing.T, s *shape.Shape, rel *decode.Relation, id int64, createdAt string) shape.Event {
	t.Helper()
	row := &decode.Tuple{Rel: rel}
	for _, v := range []string{strconv.FormatInt(id, 10), "ent", "made", "{}", createdAt} {
		row.Values = append(row.Values, decode.Value{Text: []byte(v)})
	}
	ev, err := s.Event(row, wal.Position{Lineage: 1, Commit: 1}, time.Unix(0, 0))
	if err != nil {
		t.Fatalf("id %d, created_at %s: %v", id, createdAt, err)
	}
	return ev
}

func header(ev shape.Event, key string) string {
	for _, h := range ev.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}
