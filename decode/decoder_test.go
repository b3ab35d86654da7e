package decode_test

import (
	"fmt"
	"maps"
	"math"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/decode"
	"github.com/cdc-relay/cdc-relay/wal"
)

func TestTransaction(t *testing.T) {
	got := feed(t, decode.New(),
		data(begin(0x100, 1_500_000)),
		data(relation(orders)),
		data(insert(orders.ID, text("1"), null)),
		keepalive(0x90),
		data(insert(orders.ID, text("2"), text(""))),
		data(commit(0x100, 0x130)),
		keepalive(0x140),
	)
	wantKinds(t, got, decode.Begin, decode.None, decode.Row, decode.None, decode.Row, decode.Commit, decode.Idle)
	at := time.Date(2000, 1, 1, 0, 0, 1, 500_000_000, time.UTC)
	for i, c := range got[:6] {
		inside := c.Kind != decode.None
		if inside && (c.Commit != 0x100 || !c.CommitTime.Equal(at) || c.CommitTime.Location() != time.UTC) {
			t.Errorf("change %d: commit %s at %s, want 0/100 at %s", i, c.Commit, c.CommitTime, at)
		}
		if want := wal.LSN(0); i < 5 && c.End != want {
			t.Errorf("change %d has the end %s before the commit", i, c.End)
		}
	}
	if got[2].Seq != 0 || got[4].Seq != 1 {
		t.Errorf("sequence %d, %d, want 0, 1", got[2].Seq, got[4].Seq)
	}
	if got[5].End != 0x130 {
		t.Errorf("commit's end is %s, want 0/130", got[5].End)
	}
	if c := got[6]; c.End != 0x140 || c.Commit != 0 || c.Op != 0 {
		t.Errorf("idle is %+v, want the end 0/140 and no commit", c)
	}
	first, second := got[2].Row.Values, got[4].Row.Values
	if v := first[1]; !v.Null || v.Text != nil {
		t.Errorf("NULL came as %+v", v)
	}
	if v := second[1]; v.Null || v.Text == nil || len(v.Text) != 0 {
		t.Errorf("empty text came as %+v", v)
	}
	if string(first[0].Text) != "1" || string(second[0].Text) != "2" {
		t.Errorf("ids are %q and %q", first[0].Text, second[0].Text)
	}
}

func wantKinds(t *testing.T, got []decode.Change, want ...decode.Kind) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d changes, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i].Kind != want[i] {
			t.Errorf("change %d is of kind %d, want %d", i, got[i].Kind, want[i])
		}
	}
}

func TestSequenceCountsInsertsAndOwnMessages(t *testing.T) {
	other := &decode.Relation{ID: 7, Schema: "audit", Name: "log", Columns: []decode.Column{{Name: "x", Type: 25}}}
	got := feed(t, decode.New(),
		data(begin(0x100, 0)),
		data(relation(orders)), data(relation(other)),
		data(insert(orders.ID, text("1"), null)),            // 0
		data(insert(other.ID, text("any relation counts"))), // 1
		data(message(true, 5, "cdc_relay", "")),             // 2
		data(message(true, 5, "cdc_relay.contract", "")),    // 3
		data(message(true, 5, "cdc_relay.unheard.of", "")),  // 4
		data(message(true, 5, "cdc_relay2", "")),            // foreign
		data(message(true, 5, "cdc_rela", "")),              // foreign
		data(message(true, 5, "CDC_RELAY", "")),             // foreign
		data(message(true, 5, "", "")),                      // foreign
		data(message(false, 5, "cdc_relay", "")),            // not transactional
		data(insert(orders.ID, text("2"), null)),            // 5
		data(commit(0x100, 0x130)),
		data(begin(0x130, 0)),
		data(insert(orders.ID, text("3"), null)), // 0 again
		data(commit(0x130, 0x160)),
	)
	type counted struct {
		own, counts bool
		seq         uint32
	}
	want := map[int]counted{
		3: {seq: 0}, 4: {seq: 1}, 5: {true, true, 2}, 6: {true, true, 3}, 7: {true, true, 4},
		8: {}, 9: {}, 10: {}, 11: {}, 12: {own: true}, 13: {seq: 5}, 16: {seq: 0},
	}
	for i, w := range want {
		c := got[i]
		if c.Seq != w.seq {
			t.Errorf("change %d: sequence %d, want %d", i, c.Seq, w.seq)
		}
		if c.Msg != nil && (c.Msg.Own != w.own || c.Msg.Counts() != w.counts) {
			t.Errorf("message %q: own %t, counts %t, want %t, %t", c.Msg.Prefix, c.Msg.Own, c.Msg.Counts(), w.own, w.counts)
		}
	}
}

// Whatever the caller has found a relation to be, its rows take their places: another reader of
// the same stream may know less, and must give the same positions.
func TestSequenceIgnoresTheClass(t *testing.T) {
	d := decode.New()
	feed(t, d, data(begin(0x100, 0)), data(relation(orders)))
	for want, class := range []decode.Class{decode.Unknown, decode.Foreign, decode.Outbox, decode.Foreign, decode.Foreign} {
		c := feed(t, d, data(insert(orders.ID, text("1"), null)))[0]
		if c.Kind != decode.Row || c.Seq != uint32(want) {
			t.Errorf("kind %d, sequence %d, want a row and %d", c.Kind, c.Seq, want)
		}
		c.Row.Rel.Class = class
	}
}

func TestIgnoredChangesDoNotCount(t *testing.T) {
	got := feed(t, decode.New(),
		data(begin(0x100, 0)),
		data(relation(orders)),
		data(wire("U").u32(orders.ID).u8('N').tuple(text("1"), unchanged)),
		data(wire("U").u32(orders.ID).u8('K').tuple(text("1"), null).u8('N').tuple(text("2"), unchanged)),
		data(wire("U").u32(orders.ID).u8('O').tuple(text("1"), text("a")).u8('N').tuple(text("2"), text("b"))),
		data(wire("D").u32(orders.ID).u8('K').tuple(text("1"), null)),
		data(wire("D").u32(orders.ID).u8('O').tuple(text("1"), text("a"))),
		data(truncate(3, orders.ID, orders.ID)),
		data(insert(orders.ID, text("1"), null)),
		data(commit(0x100, 0x130)),
	)
	wantKinds(t, got, decode.Begin, decode.None, decode.Ignored, decode.Ignored, decode.Ignored, decode.Ignored,
		decode.Ignored, decode.Ignored, decode.Row, decode.Commit)
	for i, op := range []byte("BRUUUDDTIC") {
		if got[i].Op != op {
			t.Errorf("change %d has the letter %q, want %q", i, got[i].Op, op)
		}
	}
	if got[8].Seq != 0 {
		t.Errorf("the insert behind them has the sequence %d, want 0", got[8].Seq)
	}
}

func TestMessageOutsideATransaction(t *testing.T) {
	got := feed(t, decode.New(),
		data(message(false, 0x80, "other", "first")),
		data(begin(0x100, 7)),
		data(message(false, 0x90, "cdc_relay.x", "\x00\xff")),
		data(message(true, 0x95, "other", "")),
		data(commit(0x100, 0x130)),
		data(message(false, 0x140, "other", "last")),
	)
	wantKinds(t, got, decode.Message, decode.Begin, decode.Message, decode.Message, decode.Commit, decode.Message)
	for _, i := range []int{0, 2, 5} {
		if c := got[i]; c.Commit != 0 || c.Seq != 0 || !c.CommitTime.IsZero() || c.Msg.Transactional {
			t.Errorf("message %d, not transactional, is %+v of %+v", i, c.Msg, c)
		}
	}
	if c := got[3]; c.Commit != 0x100 || !c.Msg.Transactional || c.Msg.LSN != 0x95 || c.Msg.Prefix != "other" {
		t.Errorf("transactional message is %+v of %+v", c.Msg, c)
	}
	if m := got[2].Msg; string(m.Content) != "\x00\xff" || m.Prefix != "cdc_relay.x" || m.LSN != 0x90 {
		t.Errorf("message is %+v", m)
	}
}

// A row has the shape that was announced last before it, and the rows before keep theirs.
func TestNewShape(t *testing.T) {
	t.Run("wider and back", testWiderAndBack)
	t.Run("dropped and added", testDroppedAndAdded)
}

func testWiderAndBack(t *testing.T) {
	wide := &decode.Relation{ID: orders.ID, Schema: "public", Name: "orders", Columns: append(orders.Columns[:2:2], decode.Column{Name: "w", Type: 23})}
	d := decode.New()
	got := feed(t, d,
		data(begin(0x100, 0)),
		data(relation(orders)),
		data(insert(orders.ID, text("1"), text("a"))),
		data(insert(orders.ID, text("2"), text("b"))),
		data(relation(wide)),
		data(insert(orders.ID, text("3"), text("c"), text("5"))),
		data(relation(orders)),
		data(insert(orders.ID, text("4"), text("d"))),
	)
	narrow, again, widened, back := got[2].Row, got[3].Row, got[5].Row, got[7].Row
	if narrow.Rel != again.Rel {
		t.Error("two rows of one shape have two relations")
	}
	if widened.Rel == narrow.Rel || len(widened.Rel.Columns) != 3 || widened.Rel.Columns[2].Name != "w" || len(widened.Values) != 3 {
		t.Errorf("the widened row has the shape %+v and %d values", widened.Rel, len(widened.Values))
	}
	if len(narrow.Rel.Columns) != 2 {
		t.Error("the new shape has altered the old one")
	}
	if back.Rel == narrow.Rel || len(back.Values) != 2 {
		t.Error("a shape announced again is not a new value")
	}
}

// A column is dropped and another is added: no count gives it away that the names have moved.
func testDroppedAndAdded(t *testing.T) {
	payment := func(columns ...string) *decode.Relation {
		rel := &decode.Relation{ID: 16390, Schema: "public", Name: "payment"}
		for _, name := range columns {
			rel.Columns = append(rel.Columns, decode.Column{Name: name, Type: 25})
		}
		return rel
	}
	got := feed(t, decode.New(),
		data(begin(0x100, 0)),
		data(relation(payment("id", "note", "payee"))),
		data(insert(16390, text("1"), text("rent"), text("ann"))),
		data(relation(payment("id", "payee", "reference"))), // DROP COLUMN note, ADD COLUMN reference
		data(insert(16390, text("2"), text("bob"), text("R-7"))),
	)
	for i, want := range map[int]map[string]string{
		2: {"id": "1", "note": "rent", "payee": "ann"},
		4: {"id": "2", "payee": "bob", "reference": "R-7"},
	} {
		row := map[string]string{}
		for j, v := range got[i].Row.Values {
			row[got[i].Row.Rel.Columns[j].Name] = string(v.Text)
		}
		if !maps.Equal(row, want) {
			t.Errorf("the values by their columns are %v, want %v", row, want)
		}
	}
}

func TestClassIsCarriedOver(t *testing.T) {
	shape := func(id uint32, schema, name string, columns int) *decode.Relation {
		return &decode.Relation{ID: id, Schema: schema, Name: name, Columns: make([]decode.Column, columns)}
	}
	cells := func(n int) []cell {
		out := make([]cell, n)
		for i := range out {
			out[i] = null
		}
		return out
	}
	for _, tc := range []struct {
		name  string
		class decode.Class // before
		after *decode.Relation
		want  decode.Class
	}{
		{"same again", decode.Outbox, shape(5, "public", "orders", 2), decode.Outbox},
		{"column added", decode.Outbox, shape(5, "public", "orders", 3), decode.Outbox},
		{"renamed", decode.Outbox, shape(5, "public", "orders_old", 2), decode.Unknown},
		{"moved to another schema", decode.Outbox, shape(5, "audit", "orders", 2), decode.Unknown},
		{"dropped and created anew", decode.Outbox, shape(6, "public", "orders", 2), decode.Unknown},
		{"foreign, and perhaps attached to the outbox since", decode.Foreign, shape(5, "public", "orders", 2), decode.Unknown},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := decode.New()
			first := feed(t, d, data(begin(0x100, 0)), data(relation(shape(5, "public", "orders", 2))), data(insert(5, cells(2)...)))[2]
			if first.Row.Rel.Class != decode.Unknown {
				t.Fatalf("a new relation is of class %d", first.Row.Rel.Class)
			}
			first.Row.Rel.Class = tc.class
			next := feed(t, d, data(relation(tc.after)), data(insert(tc.after.ID, cells(len(tc.after.Columns))...)))[1]
			if next.Row.Rel.Class != tc.want {
				t.Errorf("class %d, want %d", next.Row.Rel.Class, tc.want)
			}
			if first.Row.Rel.Class != tc.class {
				t.Error("the shape before it has lost its class")
			}
		})
	}
}

// Only the lowest flag of a column says that it is in the key; the others are for later use.
func TestKeyFlag(t *testing.T) {
	w := wire("R").u32(9).str("s").str("t").u8('d').u16(3)
	for _, flags := range []byte{1, 2, 3} {
		w = w.u8(flags).str("c").u32(25).u32(0)
	}
	rel := feed(t, decode.New(), data(begin(0x100, 0)), data(w), data(insert(9, null, null, null)))[2].Row.Rel
	if !rel.Columns[0].Key || rel.Columns[1].Key || !rel.Columns[2].Key {
		t.Errorf("columns are %+v", rel.Columns)
	}
}

func TestRelationsInterleave(t *testing.T) {
	root := &decode.Relation{ID: 1, Schema: "public", Name: "root", Columns: []decode.Column{{Name: "a"}}}
	leaf := &decode.Relation{ID: 2, Schema: "", Name: "leaf", Columns: []decode.Column{{Name: "b"}}}
	got := feed(t, decode.New(), data(begin(0x100, 0)), data(relation(root)), data(relation(leaf)),
		data(insert(1, text("x"))), data(insert(2, text("y"))))
	if got[3].Row.Rel.Name != "root" || got[4].Row.Rel.Name != "leaf" {
		t.Errorf("rows belong to %s and %s: a row is of the relation that it names, not of the last one announced",
			got[3].Row.Rel.Name, got[4].Row.Rel.Name)
	}
}

func TestCommitTime(t *testing.T) {
	for _, tc := range []struct {
		micros int64
		want   string
	}{
		{0, "2000-01-01T00:00:00Z"},
		{-1, "1999-12-31T23:59:59.999999Z"},
		{-946_684_800_000_001, "1969-12-31T23:59:59.999999Z"},
		{844_173_296_123_456, "2026-10-01T12:34:56.123456Z"},
		{9_223_371_331_200_000_000 - 1, "294276-12-31T23:59:59.999999Z"}, // the last that Postgres has
		{math.MaxInt64, "294277-01-09T04:00:54.775807Z"},                 // infinity
		{math.MinInt64, "-290278-12-22T19:59:05.224192Z"},                // -infinity
	} {
		t.Run(fmt.Sprint(tc.micros), func(t *testing.T) {
			got := feed(t, decode.New(), data(begin(0x100, tc.micros)))[0].CommitTime
			if s := got.Format("2006-01-02T15:04:05.999999999Z07:00"); s != tc.want {
				t.Errorf("got %s, want %s", s, tc.want)
			}
		})
	}
}

func TestValuesBorrowFromTheFrame(t *testing.T) {
	d := decode.New()
	feed(t, d, data(begin(0x100, 0)), data(relation(orders)))
	frame := data(insert(orders.ID, text("12345"), text("abc")))
	c, err := d.Decode(frame)
	if err != nil {
		t.Fatal(err)
	}
	v := c.Row.Values[0].Text
	if grown := append(v, '!'); &grown[0] == &v[0] {
		t.Error("appending to a value writes into the frame")
	}
	frame.Data[len("I")+4+len("N")+2+1+4] = '9'
	if string(v) != "92345" {
		t.Errorf("value is %q: it was copied, which costs an allocation", v)
	}
}
