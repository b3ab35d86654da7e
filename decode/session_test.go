package decode_test

import (
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cdc-relay/cdc-relay/decode"
	"github.com/cdc-relay/cdc-relay/wal"
)

// Any valid session, encoded by the tests' own encoder, comes back as it was.
func TestSessionComesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newScript(t)
		n := rapid.IntRange(1, 60).Draw(t, "frames")
		for range n {
			s.step()
		}
		s.play()
	})
}

// script draws a session frame by frame, and beside each frame what it must decode to.
type script struct {
	t      *rapid.T
	frames []wal.Frame
	want   []decode.Change
	shapes map[uint32]*decode.Relation // as announced last
	ids    []uint32                    // of shapes, in the order of their first announcement
	prior  map[*decode.Relation]*decode.Relation
	class  map[*decode.Relation]decode.Class // as set by the caller
	open   bool
	commit wal.LSN
	at     time.Time
	seq    uint32
	end    wal.LSN
}

func newScript(t *rapid.T) *script {
	return &script{
		t: t, shapes: map[uint32]*decode.Relation{}, prior: map[*decode.Relation]*decode.Relation{},
		class: map[*decode.Relation]decode.Class{}, end: 1,
	}
}

func (s *script) add(w wire, c decode.Change) {
	c.Op = w[0]
	s.frames, s.want = append(s.frames, data(w)), append(s.want, c)
}

// inside is a change of the open transaction.
func (s *script) inside(k decode.Kind) decode.Change {
	return decode.Change{Kind: k, Commit: s.commit, CommitTime: s.at}
}

func (s *script) step() {
	everywhere := []func(){s.keepalive, s.relation, s.typeName, func() { s.message(false) }}
	inside := []func(){s.finish, s.origin, s.truncate, func() { s.message(true) }, func() { s.message(true) }}
	if len(s.ids) > 0 {
		inside = append(inside, s.insert, s.insert, s.insert, s.insert, s.update, s.remove)
	}
	steps := append(everywhere, s.begin, s.begin, s.begin)
	if s.open {
		steps = append(everywhere, inside...)
	}
	steps[rapid.IntRange(0, len(steps)-1).Draw(s.t, "step")]()
}

func (s *script) keepalive() {
	f, c := keepalive(lsn().Draw(s.t, "keepalive")), decode.Change{}
	if !s.open {
		c = decode.Change{Kind: decode.Idle, End: f.End}
	}
	s.frames, s.want = append(s.frames, f), append(s.want, c)
}

func (s *script) begin() {
	s.open, s.seq = true, 0
	s.commit = s.end + wal.LSN(rapid.Uint64Range(0, 1<<40).Draw(s.t, "gap"))
	micros := rapid.Int64().Draw(s.t, "micros")
	s.at = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	// In steps that time.Duration can hold.
	for range 1000 {
		s.at = s.at.Add(time.Duration(micros/1000) * time.Microsecond)
	}
	s.at = s.at.Add(time.Duration(micros%1000) * time.Microsecond)
	s.add(begin(s.commit, micros), s.inside(decode.Begin))
}

func (s *script) finish() {
	s.end = s.commit + wal.LSN(rapid.Uint64Range(1, 1<<20).Draw(s.t, "record"))
	c := s.inside(decode.Commit)
	c.End = s.end
	s.add(commit(s.commit, s.end), c)
	s.open = false
}

func (s *script) relation() {
	rel := &decode.Relation{
		ID:     rapid.Uint32Range(0, 3).Draw(s.t, "relation"),
		Schema: rapid.SampledFrom([]string{"", "public", "Größe"}).Draw(s.t, "schema"),
		Name:   rapid.SampledFrom([]string{"t", "a b"}).Draw(s.t, "table"),
	}
	for i := range rapid.IntRange(0, 5).Draw(s.t, "columns") {
		rel.Columns = append(rel.Columns, decode.Column{Name: string(rune('a' + i)), Type: rapid.Uint32().Draw(s.t, "type"), Key: rapid.Bool().Draw(s.t, "key")})
	}
	if s.shapes[rel.ID] == nil {
		s.ids = append(s.ids, rel.ID)
	}
	s.prior[rel] = s.shapes[rel.ID]
	s.shapes[rel.ID] = rel
	s.add(relation(rel), decode.Change{})
}

func (s *script) typeName() {
	s.add(typeName(rapid.Uint32().Draw(s.t, "oid"), "public", "mood"), decode.Change{})
}

func (s *script) origin() { s.add(origin(lsn().Draw(s.t, "origin"), "elsewhere"), decode.Change{}) }

func (s *script) message(transactional bool) {
	m := &decode.Msg{Transactional: transactional, LSN: lsn().Draw(s.t, "lsn"), Content: content().Draw(s.t, "content")}
	own := map[string]bool{"cdc_relay": true, "cdc_relay.contract": true, "cdc_relay.": true, "cdc_relays": false, "": false, "other": false}
	m.Prefix = rapid.SampledFrom([]string{"cdc_relay", "cdc_relay.contract", "cdc_relay.", "cdc_relays", "", "other"}).Draw(s.t, "prefix")
	m.Own = own[m.Prefix]
	c := decode.Change{Kind: decode.Message}
	if transactional {
		c = s.inside(decode.Message)
		if m.Own {
			c.Seq = s.seq
			s.seq++
		}
	}
	c.Msg = m
	s.add(message(transactional, m.LSN, m.Prefix, string(m.Content)), c)
}

// shape is one of those announced, which a row may name.
func (s *script) shape() *decode.Relation {
	return s.shapes[rapid.SampledFrom(s.ids).Draw(s.t, "of relation")]
}

// cells draws a row of a shape. Kinds beyond text and NULL are drawn only for rows that are
// ignored.
func (s *script) cells(rel *decode.Relation, kinds string) (cells []cell, values []decode.Value) {
	for range rel.Columns {
		c := cell{kind: kinds[rapid.IntRange(0, len(kinds)-1).Draw(s.t, "kind")]}
		v := decode.Value{Null: true}
		if c.kind == 't' {
			v = decode.Value{Text: content().Draw(s.t, "value")}
			c.text = string(v.Text)
		}
		cells, values = append(cells, c), append(values, v)
	}
	return cells, values
}

func (s *script) insert() {
	rel := s.shape()
	cells, values := s.cells(rel, "ttn")
	c := s.inside(decode.Row)
	c.Seq, c.Row = s.seq, &decode.Tuple{Rel: rel, Values: values}
	s.seq++
	s.add(insert(rel.ID, cells...), c)
}

func (s *script) update() {
	rel := s.shape()
	w := wire("U").u32(rel.ID)
	if old := rapid.SampledFrom([]string{"", "K", "O"}).Draw(s.t, "old"); old != "" {
		before, _ := s.cells(rel, "tn")
		w = w.u8(old[0]).tuple(before...)
	}
	after, _ := s.cells(rel, "tnu")
	s.add(w.u8('N').tuple(after...), s.inside(decode.Ignored))
}

func (s *script) remove() {
	rel := s.shape()
	before, _ := s.cells(rel, "tn")
	s.add(wire("D").u32(rel.ID).u8(rapid.SampledFrom([]byte("KO")).Draw(s.t, "old")).tuple(before...), s.inside(decode.Ignored))
}

func (s *script) truncate() {
	s.add(truncate(rapid.Byte().Draw(s.t, "options"), s.ids...), s.inside(decode.Ignored))
}

// play decodes the session and compares. A pointer to a relation stands for a shape: it must
// be the same for the same announcement, and another for another.
func (s *script) play() {
	d := decode.New()
	shapes := map[*decode.Relation]*decode.Relation{}
	for i, f := range s.frames {
		c, err := d.Decode(f)
		if err != nil {
			s.t.Fatalf("frame %d (%q): %v", i, f.Data, err)
		}
		got, want := clone(c), s.want[i]
		if got.Row != nil && want.Row != nil {
			drawn := want.Row.Rel
			if known, ok := shapes[drawn]; ok && known != got.Row.Rel {
				s.t.Fatalf("frame %d: one shape has two pointers", i)
			}
			shapes[drawn] = got.Row.Rel
			if !sameShape(got.Row.Rel, drawn) {
				s.t.Fatalf("frame %d: shape %+v, want %+v", i, got.Row.Rel, drawn)
			}
			if class := s.carried(drawn); got.Row.Rel.Class != class {
				s.t.Fatalf("frame %d: class %d, want %d", i, got.Row.Rel.Class, class)
			}
			s.class[drawn] = decode.Class(i % 3)
			got.Row.Rel.Class = s.class[drawn]
			got.Row.Rel = drawn
		}
		if !got.CommitTime.Equal(want.CommitTime) {
			s.t.Fatalf("frame %d: commit time %s, want %s", i, got.CommitTime, want.CommitTime)
		}
		got.CommitTime = want.CommitTime
		if !reflect.DeepEqual(got, want) {
			s.t.Fatalf("frame %d (%q): got %+v, want %+v", i, f.Data, got, want)
		}
	}
	pointers := map[*decode.Relation]bool{}
	for _, p := range shapes {
		if pointers[p] {
			s.t.Fatal("two shapes have one pointer")
		}
		pointers[p] = true
	}
}

// carried is the class that a shape must have: its own, or Outbox after an outbox of the same OID
// and names.
func (s *script) carried(rel *decode.Relation) decode.Class {
	if class, ok := s.class[rel]; ok {
		return class
	}
	if p := s.prior[rel]; p != nil && p.Schema == rel.Schema && p.Name == rel.Name && s.carried(p) == decode.Outbox {
		return decode.Outbox
	}
	return decode.Unknown
}

func sameShape(got, want *decode.Relation) bool {
	if got.ID != want.ID || got.Schema != want.Schema || got.Name != want.Name || len(got.Columns) != len(want.Columns) {
		return false
	}
	for i := range got.Columns {
		if got.Columns[i] != want.Columns[i] {
			return false
		}
	}
	return true
}

func lsn() *rapid.Generator[wal.LSN] {
	return rapid.Map(rapid.Uint64(), func(n uint64) wal.LSN { return wal.LSN(n) })
}

// content is never nil: a value that is there has text, if only an empty one.
func content() *rapid.Generator[[]byte] {
	return rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 40), func(b []byte) []byte { return append([]byte{}, b...) })
}
