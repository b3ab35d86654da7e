package shape

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cdc-relay/cdc-relay/decode"
	"github.com/cdc-relay/cdc-relay/wal"
)

func drawConfig(t *rapid.T) Config {
	return Config{
		Table: "public.outbox_events", Topic: "orders",
		Keys:       rapid.SampledFrom([]KeysMode{KeysDerived, KeysStored}).Draw(t, "keys"),
		Ordering:   rapid.SampledFrom([]OrderingMode{OrderingRow, OrderingCommit}).Draw(t, "ordering"),
		Tombstones: rapid.Bool().Draw(t, "tombstones"),
	}
}

func drawPosition(t *rapid.T) wal.Position {
	return wal.Position{Lineage: rapid.Uint16().Draw(t, "lineage"), Commit: wal.LSN(rapid.Uint64().Draw(t, "commit")), Seq: rapid.Uint32().Draw(t, "seq")}
}

// drawRow makes a row of the reference table with its columns in any order, mostly one that
// can be an event.
func drawRow(t *rapid.T) *decode.Tuple {
	text := func(name string, g *rapid.Generator[string]) any {
		if rapid.IntRange(0, 9).Draw(t, name+" null") == 0 {
			return nil
		}
		return g.Draw(t, name)
	}
	number := rapid.Custom(func(t *rapid.T) string { return fmt.Sprint(rapid.Int64().Draw(t, "n")) })
	at := rapid.Custom(func(t *rapid.T) string {
		return printTimestamp(time.Unix(rapid.Int64Range(-1e10, 1e11).Draw(t, "s"), rapid.Int64Range(0, 1e9-1).Draw(t, "ns")).UTC())
	})
	oid := rapid.SampledFrom([]int{oidJSONB, 25, oidBytea}).Draw(t, "payload type")
	payload := rapid.String()
	if oid == oidBytea {
		payload = rapid.Custom(func(t *rapid.T) string { return fmt.Sprintf(`\x%x`, rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) })
	}
	columns := [][]any{
		{"id", oidInt8, text("id", number)},
		{"entity_id", 25, text("entity", rapid.String())},
		{"event_type", 25, text("type", rapid.String())},
		{"dedupe_key", 25, text("dedupe", rapid.String())},
		{"partition_key", 25, text("partition", rapid.String())},
		{"ordering_key", 25, text("ordering", rapid.String())},
		{"payload", oid, text("payload", payload)},
		{"created_at", oidTimestamptz, text("created", at)},
		{"headers", oidJSON, text("headers", rapid.SampledFrom([]string{`{}`, `{"a": "1", "source": null}`, `{"b": [1], "": "", "a": "\n"}`, `[]`}))},
		{"status", 25, text("status", rapid.Just("pending"))},
	}
	return tuple(slices.Concat(rapid.Permutation(columns).Draw(t, "columns")...)...)
}

// clone copies an event into memory that nothing else can reach.
func clone(e Event) Event {
	e.ShardKey, e.Key, e.Value = bytes.Clone(e.ShardKey), bytes.Clone(e.Key), bytes.Clone(e.Value)
	e.DedupeKey = strings.Clone(e.DedupeKey)
	e.Headers = slices.Clone(e.Headers)
	for i, h := range e.Headers {
		e.Headers[i] = Header{strings.Clone(h.Key), bytes.Clone(h.Value)}
	}
	return e
}

func same(a, b Event) bool { return reflect.DeepEqual(a, b) }

// The event of a row is the same whatever came before it, and stays as it is whatever comes
// after it and whatever happens to the memory that the row lay in.
func TestSameRowSameEvent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := drawConfig(t)
		used, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		var kept, want []Event
		for range rapid.IntRange(1, 5).Draw(t, "rows") {
			row, pos, committed := drawRow(t), drawPosition(t), time.Unix(rapid.Int64Range(0, 1e10).Draw(t, "commit time"), 0)
			fresh, _ := New(cfg)
			e1, err1 := fresh.Event(row, pos, committed)
			e2, err2 := used.Event(row, pos, committed)
			if !same(e1, e2) || fmt.Sprint(err1) != fmt.Sprint(err2) {
				t.Fatalf("first %+v, %v\nthen  %+v, %v", e1, err1, e2, err2)
			}
			if err1 != nil && !same(e1, Event{}) {
				t.Fatalf("an event beside the error %v: %+v", err1, e1)
			}
			kept, want = append(kept, e2), append(want, clone(e2))
			for _, v := range row.Values {
				for i := range v.Text {
					v.Text[i] ^= 0xff
				}
			}
		}
		for i := range kept {
			if !same(kept[i], want[i]) {
				t.Fatalf("event %d was\n%+v and is now\n%+v", i, want[i], kept[i])
			}
		}
	})
}

// Nothing that is appended to a slice of an event reaches another one.
func TestSlicesHaveNoRoom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, err := New(drawConfig(t))
		if err != nil {
			t.Fatal(err)
		}
		e, err := s.Event(drawRow(t), drawPosition(t), commit)
		if err != nil {
			return
		}
		all := [][]byte{e.ShardKey, e.Key, e.Value}
		for _, h := range e.Headers {
			all = append(all, h.Value)
		}
		want := clone(e)
		for i, b := range all {
			if len(b) != cap(b) {
				t.Fatalf("slice %d has %d bytes and room for %d", i, len(b), cap(b))
			}
			_ = append(b, "overwritten?"...)
		}
		if !same(e, want) {
			t.Fatalf("the event was\n%+v and is now\n%+v", want, e)
		}
		if len(e.Headers) != cap(e.Headers) {
			t.Fatalf("%d headers, room for %d", len(e.Headers), cap(e.Headers))
		}
	})
}

// The rules once more, as simply as they can be written.
func referenceEvent(cfg Config, row *decode.Tuple, pos wal.Position, committed time.Time) (Event, string) {
	col, bytea := map[string]decode.Value{}, false
	for i, c := range row.Rel.Columns {
		col[c.Name] = row.Values[i]
		bytea = bytea || c.Name == "payload" && c.Type == oidBytea
	}
	text := func(name string) string { return string(col[name].Text) }
	need := []string{"event_type", "id"}
	dedupe := fmt.Sprintf("%s:%s:%s", text("event_type"), text("entity_id"), text("id"))
	key := col["entity_id"]
	created, _, _ := parseTimestamp(col["created_at"].Text)
	ordering := fmt.Sprintf("%013d:%020s", created.ms(), text("id"))
	if strings.HasPrefix(text("id"), "-") {
		ordering = fmt.Sprintf("%013d:-%019s", created.ms(), text("id")[1:])
	}
	if cfg.Keys == KeysStored {
		need = []string{"event_type", "dedupe_key", "partition_key"}
		dedupe, key, ordering = text("dedupe_key"), col["partition_key"], text("ordering_key")
	}
	switch {
	case cfg.Ordering == OrderingCommit:
		ordering = pos.String()
	case cfg.Keys == KeysStored:
		need = append(need, "ordering_key")
	default:
		need = append(need, "created_at")
	}
	for _, n := range need {
		if col[n].Null {
			return Event{}, n
		}
	}
	hs, ok := referenceHeaders(text("headers"))
	if !ok && !col["headers"].Null {
		return Event{}, "headers"
	}
	e := Event{Position: pos, Topic: cfg.Topic, DedupeKey: dedupe, ShardKey: []byte(dedupe), CommitTime: committed, TimestampMs: committed.UnixMilli()}
	if !key.Null {
		e.Key, e.ShardKey = key.Text, key.Text
	}
	if at := time.Unix(created.sec, int64(created.usec)*1000); !col["created_at"].Null && at.Sub(committed).Abs() <= 24*time.Hour {
		e.TimestampMs = at.UnixMilli()
	}
	switch payload := col["payload"]; {
	case payload.Null && !cfg.Tombstones:
		return Event{}, "payload"
	case !payload.Null && bytea:
		e.Value, _ = hex.DecodeString(text("payload")[2:])
	default:
		e.Value = payload.Text
	}
	e.Headers = []Header{
		{"event_id", []byte(dedupe)},
		{"event_type", col["event_type"].Text},
		{"dedupe_key", []byte(dedupe)},
		{"ordering_key", []byte(ordering)},
		{"position", []byte(pos.String())},
	}
	e.Headers = append(e.Headers, hs...)
	return e, ""
}

func TestEventFollowsTheRules(t *testing.T) {
	events, rejected := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		cfg, row, pos := drawConfig(t), drawRow(t), drawPosition(t)
		committed := time.Unix(rapid.Int64Range(0, 1e10).Draw(t, "commit time"), 0)
		s, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		want, column := referenceEvent(cfg, row, pos, committed)
		got, err := s.Event(row, pos, committed)
		if column != "" {
			// Which of several faults is named is no rule.
			rejected++
			if r := (*RejectError)(nil); !errors.As(err, &r) {
				t.Fatalf("%v, want it rejected for its column %s", err, column)
			}
			return
		}
		events++
		if err != nil || printEvent(got) != printEvent(want) {
			t.Fatalf("got %v\n%s\nwant\n%s", err, printEvent(got), printEvent(want))
		}
	})
	if events == 0 || rejected == 0 {
		t.Errorf("%d events and %d rejected rows were tried", events, rejected)
	}
}

// What an event counts as covers what it keeps in memory.
func TestBytesCoverMemory(t *testing.T) {
	row := with(referenceRow(), "headers", oidJSON, `{"a": "b", "source": "c"}`)
	for _, cfg := range []Config{{}, {Keys: KeysStored}, {Ordering: OrderingCommit}} {
		s := mustNew(t, cfg)
		e, err := s.Event(row, benchPos, commit)
		if err != nil {
			t.Fatal(err)
		}
		if arena := len(s.buf) + len(payload300) + len(s.names); e.Bytes() < arena {
			t.Errorf("%+v: %d bytes counted, %d kept", cfg, e.Bytes(), arena)
		}
	}
}

// One huge row doesn't stay in memory with the Shape.
func TestBuffersAreGivenBack(t *testing.T) {
	s := mustNew(t, Config{})
	big := strings.Repeat("x", 1<<20)
	row := with(referenceRow(), "entity_id", 25, big, "headers", oidJSON,
		`{"`+big+`": "`+big+`", "nested": `+strings.Repeat("[", 1<<20)+strings.Repeat("]", 1<<20)+strings.Repeat(`, "h": 1`, 1<<16)+`}`)
	if _, err := s.Event(row, benchPos, commit); err != nil {
		t.Fatal(err)
	}
	if n := cap(s.buf) + cap(s.names) + 48*cap(s.rows) + cap(s.json.nest); n > 4*bufferKeep || s.json.b != nil {
		t.Errorf("%d bytes of buffers are kept", n)
	}
}
