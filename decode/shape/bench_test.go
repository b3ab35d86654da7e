package shape

import (
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/decode"
	"github.com/cdc-relay/cdc-relay/wal"
)

// payload300 is a jsonb payload of 300 bytes.
const payload300 = `{"at": "2026-11-30T14:14:50.123456+00:00", "seq": 123456, "type": "order.created", "items": [{"qty": 3, "sku": "0cc175b9c0f1b6a831c399e269772661"}], "currency": "EUR", "customer": {"id": 934571, "email": "user734512@example.com"}, "order_id": "ord-ent-517", "trace_id": "92eb5ffee6ae2fec3ad71c", "n": 4711}`

var benchPos = wal.Position{Lineage: 1, Commit: 0x16B374D848, Seq: 7}

// referenceRow is a row of the reference table with its 12 columns.
func referenceRow() *decode.Tuple {
	return tuple(
		"id", oidInt8, "123456",
		"entity_id", 25, "ent-517",
		"event_type", 25, "order.created",
		"dedupe_key", 25, "order-ent-517-123456",
		"partition_key", 25, "ent-517",
		"ordering_key", 25, "ent-517:000000123456",
		"payload", oidJSONB, payload300,
		"status", 25, "pending",
		"attempts", oidInt4, "0",
		"last_error", 25, nil,
		"created_at", oidTimestamptz, "2026-11-30 14:14:50.123456+00",
		"published_at", oidTimestamptz, nil,
	)
}

func benchmarkEvent(b *testing.B, cfg Config, t *decode.Tuple) {
	s := mustNew(b, cfg)
	commit := time.Date(2026, 11, 30, 14, 14, 51, 0, time.UTC)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Event(t, benchPos, commit); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEvent(b *testing.B) {
	b.Run("derived", func(b *testing.B) { benchmarkEvent(b, Config{}, referenceRow()) })
	b.Run("derived-commit", func(b *testing.B) { benchmarkEvent(b, Config{Ordering: OrderingCommit}, referenceRow()) })
	b.Run("stored", func(b *testing.B) { benchmarkEvent(b, Config{Keys: KeysStored}, referenceRow()) })
	b.Run("headers", func(b *testing.B) {
		benchmarkEvent(b, Config{}, with(referenceRow(), "headers", oidJSONB,
			`{"tenant": "acme", "attempt": 3, "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}`))
	})
}

func BenchmarkParseTimestamp(b *testing.B) {
	text := []byte("2026-11-30 14:14:50.123456+00")
	b.ReportAllocs()
	for b.Loop() {
		if _, _, ok := parseTimestamp(text); !ok {
			b.Fatal("not a time")
		}
	}
}

// The garbage collector's share of an event is what it allocates: memory for its bytes, for
// its strings and for its headers.
func TestEventAllocations(t *testing.T) {
	commit := time.Date(2026, 11, 30, 14, 14, 51, 0, time.UTC)
	for name, tc := range map[string]struct {
		cfg  Config
		row  *decode.Tuple
		most float64
	}{
		"derived": {Config{}, referenceRow(), 3},
		"stored":  {Config{Keys: KeysStored}, referenceRow(), 3},
		"headers": {Config{}, with(referenceRow(), "headers", oidJSON, `{"a": "b\nc", "d": [1, {"e": null}]}`), 3},
	} {
		t.Run(name, func(t *testing.T) {
			s := mustNew(t, tc.cfg)
			n := testing.AllocsPerRun(100, func() {
				if _, err := s.Event(tc.row, benchPos, commit); err != nil {
					t.Fatal(err)
				}
			})
			if n > tc.most {
				t.Errorf("%v allocations per event, want at most %v", n, tc.most)
			}
		})
	}
}
