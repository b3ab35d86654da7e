package shape

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cdc-relay/cdc-relay/decode"
	"github.com/cdc-relay/cdc-relay/wal"
)

var commit = time.Date(2026, 11, 30, 14, 14, 51, 0, time.UTC)

func header(e Event, name string) string {
	for _, h := range e.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return "(no such header)"
}

// identity prints what decides where an event goes and what it is taken for.
func identity(e Event) string {
	key := "NULL"
	if e.Key != nil {
		key = strconv.Quote(string(e.Key))
	}
	return fmt.Sprintf("dedupe %q key %s shard %q ordering %q", e.DedupeKey, key, e.ShardKey, header(e, HeaderOrderingKey))
}

var ref = referenceRow()

const uuid = "b7e6f2f4-0d53-4a0f-9f0d-1f3f6b7a1c11"

var keyCases = []struct {
	name string
	cfg  Config
	row  *decode.Tuple
	want string // identity, or "column: cause" of the rejection
}{
	{
		"derived ignores the row's keys",
		Config{},
		ref,
		`dedupe "order.created:ent-517:123456" key "ent-517" shard "ent-517" ordering "1796048090123:00000000000000123456"`,
	},
	{
		"derived does without the row's keys",
		Config{},
		without(ref, "dedupe_key", "partition_key", "ordering_key"),
		`dedupe "order.created:ent-517:123456" key "ent-517" shard "ent-517" ordering "1796048090123:00000000000000123456"`,
	},
	{
		"derived, keys NULL",
		Config{},
		with(ref, "dedupe_key", 25, nil, "partition_key", 25, nil, "ordering_key", 25, nil),
		`dedupe "order.created:ent-517:123456" key "ent-517" shard "ent-517" ordering "1796048090123:00000000000000123456"`,
	},
	{
		"derived, by position",
		Config{Ordering: OrderingCommit},
		ref,
		`dedupe "order.created:ent-517:123456" key "ent-517" shard "ent-517" ordering "0001:00000016B374D848:0000000007"`,
	},
	{
		"entity NULL",
		Config{},
		with(ref, "entity_id", 25, nil),
		`dedupe "order.created::123456" key NULL shard "order.created::123456" ordering "1796048090123:00000000000000123456"`,
	},
	{
		"entity empty",
		Config{},
		with(ref, "entity_id", 25, ""),
		`dedupe "order.created::123456" key "" shard "" ordering "1796048090123:00000000000000123456"`,
	},
	{
		"all empty",
		Config{Ordering: OrderingCommit},
		with(ref, "entity_id", 25, "", "event_type", 25, "", "id", 25, ""),
		`dedupe "::" key "" shard "" ordering "0001:00000016B374D848:0000000007"`,
	},
	{
		"colons and other letters",
		Config{},
		with(ref, "entity_id", 25, "a:b:ключ", "event_type", 25, ":"),
		`dedupe "::a:b:ключ:123456" key "a:b:ключ" shard "a:b:ключ" ordering "1796048090123:00000000000000123456"`,
	},
	{
		"uuid by position",
		Config{Ordering: OrderingCommit},
		with(ref, "id", 2950, uuid),
		`dedupe "order.created:ent-517:` + uuid + `" key "ent-517" shard "ent-517" ordering "0001:00000016B374D848:0000000007"`,
	},
	{
		"least id",
		Config{},
		with(ref, "id", oidInt8, "-9223372036854775808"),
		`dedupe "order.created:ent-517:-9223372036854775808" key "ent-517" shard "ent-517" ordering "1796048090123:-9223372036854775808"`,
	},
	{
		"greatest id",
		Config{},
		with(ref, "id", oidInt8, "9223372036854775807"),
		`dedupe "order.created:ent-517:9223372036854775807" key "ent-517" shard "ent-517" ordering "1796048090123:09223372036854775807"`,
	},
	{
		"int4 id, timestamp",
		Config{},
		with(ref, "id", oidInt4, "-1", "created_at", oidTimestamp, "1969-12-31 23:59:59.9999"),
		`dedupe "order.created:ent-517:-1" key "ent-517" shard "ent-517" ordering "-000000000001:-0000000000000000001"`,
	},
	{
		"created_at NULL by position",
		Config{Ordering: OrderingCommit},
		with(ref, "created_at", oidTimestamptz, nil),
		`dedupe "order.created:ent-517:123456" key "ent-517" shard "ent-517" ordering "0001:00000016B374D848:0000000007"`,
	},
	{
		"no created_at by position",
		Config{Ordering: OrderingCommit},
		without(ref, "created_at"),
		`dedupe "order.created:ent-517:123456" key "ent-517" shard "ent-517" ordering "0001:00000016B374D848:0000000007"`,
	},

	{"id NULL", Config{}, with(ref, "id", oidInt8, nil), "id: is NULL"},
	{"id NULL by position", Config{Ordering: OrderingCommit}, with(ref, "id", 2950, nil), "id: is NULL"},
	{"type NULL", Config{}, with(ref, "event_type", 25, nil), "event_type: is NULL"},
	{"created_at NULL", Config{}, with(ref, "created_at", oidTimestamptz, nil), "created_at: is NULL"},
	{"created_at infinite", Config{}, with(ref, "created_at", oidTimestamptz, "infinity"), "created_at: is infinity"},
	{"created_at -infinite by position", Config{Ordering: OrderingCommit}, with(ref, "created_at", oidTimestamptz, "-infinity"), "created_at: is -infinity"},
	{"created_at infinite, stored", Config{Keys: KeysStored}, with(ref, "created_at", oidTimestamp, "infinity"), "created_at: is infinity"},
	{
		"created_at in another DateStyle",
		Config{},
		with(ref, "created_at", oidTimestamptz, "30.11.2026 14:14:50 UTC"),
		`created_at: is "30.11.2026 14:14:50 UTC", not a time as Postgres prints it`,
	},
	{
		"timestamptz without its zone",
		Config{},
		with(ref, "created_at", oidTimestamptz, "2026-11-30 14:14:50"),
		`created_at: is "2026-11-30 14:14:50", not a time as Postgres prints it`,
	},
	{
		"timestamp with a zone",
		Config{},
		with(ref, "created_at", oidTimestamp, "2026-11-30 14:14:50+00"),
		`created_at: is "2026-11-30 14:14:50+00", not a time as Postgres prints it`,
	},
	{
		"id of a domain over text",
		Config{},
		with(ref, "id", firstOwnOID, strings.Repeat("9", 70)),
		`id: is "` + strings.Repeat("9", 64) + `"..., not an integer of 64 bits`,
	},

	{
		"stored",
		Config{Keys: KeysStored},
		ref,
		`dedupe "order-ent-517-123456" key "ent-517" shard "ent-517" ordering "ent-517:000000123456"`,
	},
	{
		"stored, by position",
		Config{Keys: KeysStored, Ordering: OrderingCommit},
		with(ref, "ordering_key", 25, nil),
		`dedupe "order-ent-517-123456" key "ent-517" shard "ent-517" ordering "0001:00000016B374D848:0000000007"`,
	},
	{
		"stored, empty",
		Config{Keys: KeysStored},
		with(ref, "dedupe_key", 25, "", "partition_key", 25, "", "ordering_key", 25, ""),
		`dedupe "" key "" shard "" ordering ""`,
	},
	{
		"stored needs no others",
		Config{Keys: KeysStored},
		with(without(ref, "id", "entity_id"), "created_at", oidTimestamptz, nil),
		`dedupe "order-ent-517-123456" key "ent-517" shard "ent-517" ordering "ent-517:000000123456"`,
	},
	{"stored, dedupe_key NULL", Config{Keys: KeysStored}, with(ref, "dedupe_key", 25, nil), "dedupe_key: is NULL"},
	{"stored, partition_key NULL", Config{Keys: KeysStored}, with(ref, "partition_key", 25, nil), "partition_key: is NULL"},
	{"stored, ordering_key NULL", Config{Keys: KeysStored}, with(ref, "ordering_key", 25, nil), "ordering_key: is NULL"},
	{"stored, type NULL", Config{Keys: KeysStored}, with(ref, "event_type", 25, nil), "event_type: is NULL"},
}

func TestKeys(t *testing.T) {
	for _, tc := range keyCases {
		t.Run(tc.name, func(t *testing.T) {
			e, err := mustNew(t, tc.cfg).Event(tc.row, benchPos, commit)
			got := identity(e)
			if r := (*RejectError)(nil); errors.As(err, &r) {
				got = r.Column + ": " + r.Cause
			} else if err != nil {
				t.Fatal(err)
			}
			if got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			if err == nil && (header(e, HeaderDedupeKey) != e.DedupeKey || header(e, HeaderEventID) != e.DedupeKey || header(e, HeaderPosition) != benchPos.String()) {
				t.Errorf("headers %s", printHeaders(e.Headers))
			}
		})
	}
}

// testdata/ordering.csv was made with Postgres's arithmetic and C's printf. It holds for any
// implementation of the row ordering key.
func TestOrderingKeyVectors(t *testing.T) {
	rows := readCSV(t, "ordering.csv", "created_at", "epoch_ms", "id", "want")
	if len(rows) < 100 {
		t.Errorf("only %d rows", len(rows))
	}
	s := mustNew(t, Config{})
	for _, r := range rows {
		at, _, ok := parseTimestamp([]byte(r[0]))
		if !ok || at.ms() != number(t, r[1]) {
			t.Errorf("%q is %d ms, want %s", r[0], at.ms(), r[1])
		}
		e, err := s.Event(with(referenceRow(), "created_at", oidTimestamptz, r[0], "id", oidInt8, r[2]), benchPos, commit)
		if got := header(e, HeaderOrderingKey); err != nil || got != r[3] {
			t.Errorf("ordering key of (%s, %s) = %q, %v, want %q", r[0], r[2], got, err, r[3])
		}
	}
}

// Package fmt's %0*d is C's.
func TestAppendPaddedPrintsLikeC(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.OneOf(rapid.Int64(), rapid.Int64Range(-20, 20), rapid.SampledFrom([]int64{math.MinInt64, math.MinInt64 + 1, math.MaxInt64})).Draw(t, "v")
		width := rapid.SampledFrom([]int{13, 20}).Draw(t, "width")
		if got, want := string(appendPadded([]byte("x"), v, width)), fmt.Sprintf("x%0*d", width, v); got != want {
			t.Fatalf("appendPadded(%d, %d) = %q, want %q", v, width, got, want)
		}
	})
}

func TestAppendPositionPrintsLikeString(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := wal.Position{
			Lineage: rapid.Uint16().Draw(t, "lineage"),
			Commit:  wal.LSN(rapid.Uint64().Draw(t, "commit")),
			Seq:     rapid.Uint32().Draw(t, "seq"),
		}
		if got := string(appendPosition(nil, p)); got != p.String() {
			t.Fatalf("appendPosition = %q, want %q", got, p)
		}
	})
}

// In the range that the documentation names, text order is the order of numbers.
func TestOrderingKeySortsAsText(t *testing.T) {
	ms := rapid.OneOf(rapid.Int64Range(0, 1e13-1), rapid.Int64Range(0, 3), rapid.Just(int64(1e13-1)))
	id := rapid.OneOf(rapid.Int64Range(0, math.MaxInt64), rapid.Int64Range(0, 12), rapid.Just(int64(math.MaxInt64)))
	key := func(ms, id int64) string {
		return string(appendPadded(append(appendPadded(nil, ms, 13), ':'), id, 20))
	}
	rapid.Check(t, func(t *rapid.T) {
		m1, m2, i1, i2 := ms.Draw(t, "ms 1"), ms.Draw(t, "ms 2"), id.Draw(t, "id 1"), id.Draw(t, "id 2")
		k1, k2 := key(m1, i1), key(m2, i2)
		less := m1 < m2 || m1 == m2 && i1 < i2
		if k1 < k2 != less || len(k1) != 34 {
			t.Fatalf("%s < %s is %v, want %v", k1, k2, k1 < k2, less)
		}
	})
}

func TestParseID(t *testing.T) {
	for _, text := range []string{
		"", "-", "+1", "01", "-01", "-0", "00", " 1", "1 ", "1.0", "1e3", "0x1", "1_000", "٣", "--1", "1-", "NaN",
		"9223372036854775808", "-9223372036854775809", "9999999999999999999", "18446744073709551616", "100000000000000000000",
	} {
		if n, ok := parseID([]byte(text)); ok {
			t.Errorf("parseID(%q) = %d, want it refused", text, n)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.OneOf(rapid.Int64(), rapid.Int64Range(-11, 11), rapid.SampledFrom([]int64{math.MinInt64, math.MaxInt64})).Draw(t, "id")
		if n, ok := parseID(strconv.AppendInt(nil, want, 10)); !ok || n != want {
			t.Fatalf("parseID(%d) = %d, %v", want, n, ok)
		}
	})
}
