package decode_test

import (
	"encoding/binary"
	"testing"

	"github.com/cdc-relay/cdc-relay/decode"
	"github.com/cdc-relay/cdc-relay/wal"
)

// outbox is the reference outbox table, and event an event of it with a payload of about 300
// bytes.
var outbox = &decode.Relation{ID: 16400, Schema: "public", Name: "outbox_events", Columns: []decode.Column{
	{Name: "id", Type: 20, Key: true},
	{Name: "entity_id", Type: 25},
	{Name: "event_type", Type: 25},
	{Name: "dedupe_key", Type: 25},
	{Name: "partition_key", Type: 25},
	{Name: "ordering_key", Type: 25},
	{Name: "payload", Type: 3802},
	{Name: "status", Type: 25},
	{Name: "attempts", Type: 23},
	{Name: "last_error", Type: 25},
	{Name: "created_at", Type: 1184},
	{Name: "published_at", Type: 1184},
}}

var event = insert(outbox.ID, text("123456789"), text("ent-417"), text("order.created"), text("order.created:ent-417:123456789"),
	text("ent-417"), text("1790858096123:00000000000123456789"),
	text(`{"at": "2026-10-01T12:34:56.123456+00:00", "seq": 123456789, "type": "order.created", "items": [{"qty": 3, "sku": "5f4dcc3b5aa765d61d8327deb882cf99"}], `+
		`"currency": "EUR", "customer": {"id": 271828, "email": "user314159@example.com"}, "order_id": "ord-ent-417", "trace_id": "d41d8cd98f00b204e9800998ecf8427e", "total_cents": 61803}`),
	text("pending"), text("0"), null, text("2026-10-01 12:34:56.123456+00"), null)

// started is a decoder in a transaction in which the outbox is known.
func started(t testing.TB) *decode.Decoder {
	d := decode.New()
	feed(t, d, data(begin(0x100, 0)), data(relation(outbox)), data(event))
	return d
}

func BenchmarkDecodeInsert(b *testing.B) {
	d, f := started(b), data(event)
	b.SetBytes(int64(len(f.Data)))
	b.ReportAllocs()
	for b.Loop() {
		if c, err := d.Decode(f); err != nil || c.Kind != decode.Row {
			b.Fatal(c, err)
		}
	}
}

func BenchmarkDecodeMessage(b *testing.B) {
	d, f := started(b), data(message(true, 0x90, decode.OwnPrefix, string(event)))
	b.SetBytes(int64(len(f.Data)))
	b.ReportAllocs()
	for b.Loop() {
		if c, err := d.Decode(f); err != nil || c.Kind != decode.Message {
			b.Fatal(c, err)
		}
	}
}

// In the steady state nothing allocates: not a row, not a message, not the frame of a
// transaction.
func TestNoAllocations(t *testing.T) {
	d := started(t)
	feed(t, d, data(message(true, 1, decode.OwnPrefix, "x")), data(commit(0x100, 0x130)))
	at := wal.LSN(0x130)
	frames := []wal.Frame{
		data(begin(at, 0)), data(event), data(event), data(message(true, 1, decode.OwnPrefix, "content")),
		data(wire("U").u32(outbox.ID).u8('N').bytes(event[6:])), data(commit(at, at+1)), keepalive(1),
	}
	runs := 0
	allocs := testing.AllocsPerRun(100, func() {
		runs++
		// The same transaction again, only later, so that the commits don't run backwards.
		put(frames[0].Data[1:], at)
		put(frames[5].Data[2:], at)
		put(frames[5].Data[10:], at+1)
		at++
		for _, f := range frames {
			if _, err := d.Decode(f); err != nil {
				t.Fatal(err)
			}
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations for %d frames", allocs, len(frames))
	}
	if runs < 100 {
		t.Errorf("ran %d times", runs)
	}
}

func put(b []byte, lsn wal.LSN) { binary.BigEndian.PutUint64(b, uint64(lsn)) }
