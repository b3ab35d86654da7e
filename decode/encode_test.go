package decode_test

import (
	"encoding/binary"

	"github.com/cdc-relay/cdc-relay/decode"
	"github.com/cdc-relay/cdc-relay/wal"
)

// wire builds a pgoutput message field by field. It is written from the manual and not
// from the decoder, so that the two can contradict each other.
type wire []byte

func (w wire) u8(b byte) wire      { return append(w, b) }
func (w wire) u16(n uint16) wire   { return binary.BigEndian.AppendUint16(w, n) }
func (w wire) u32(n uint32) wire   { return binary.BigEndian.AppendUint32(w, n) }
func (w wire) u64(n uint64) wire   { return binary.BigEndian.AppendUint64(w, n) }
func (w wire) str(s string) wire   { return append(append(w, s...), 0) }
func (w wire) bytes(b []byte) wire { return append(w, b...) }

// cell is one value of a tuple: its kind, and its text if it has any.
type cell struct {
	kind byte
	text string
}

func text(s string) cell { return cell{'t', s} }

var (
	null      = cell{kind: 'n'}
	unchanged = cell{kind: 'u'}
)

func (w wire) tuple(cells ...cell) wire {
	w = w.u16(uint16(len(cells)))
	for _, c := range cells {
		w = w.u8(c.kind)
		if c.kind == 't' || c.kind == 'b' {
			w = w.u32(uint32(len(c.text))).bytes([]byte(c.text))
		}
	}
	return w
}

func begin(commit wal.LSN, micros int64) wire {
	return wire("B").u64(uint64(commit)).u64(uint64(micros)).u32(4711)
}

func commit(at, end wal.LSN) wire {
	return wire("C").u8(0).u64(uint64(at)).u64(uint64(end)).u64(12345)
}

func origin(at wal.LSN, name string) wire { return wire("O").u64(uint64(at)).str(name) }

func relation(rel *decode.Relation) wire {
	w := wire("R").u32(rel.ID).str(rel.Schema).str(rel.Name).u8('d').u16(uint16(len(rel.Columns)))
	for _, c := range rel.Columns {
		var flags byte
		if c.Key {
			flags = 1
		}
		w = w.u8(flags).str(c.Name).u32(c.Type).u32(0xffffffff)
	}
	return w
}

func typeName(oid uint32, schema, name string) wire { return wire("Y").u32(oid).str(schema).str(name) }

func insert(rel uint32, cells ...cell) wire { return wire("I").u32(rel).u8('N').tuple(cells...) }

func truncate(options byte, rels ...uint32) wire {
	w := wire("T").u32(uint32(len(rels))).u8(options)
	for _, id := range rels {
		w = w.u32(id)
	}
	return w
}

func message(transactional bool, lsn wal.LSN, prefix, content string) wire {
	var flags byte
	if transactional {
		flags = 1
	}
	return wire("M").u8(flags).u64(uint64(lsn)).str(prefix).u32(uint32(len(content))).bytes([]byte(content))
}

func data(w wire) wal.Frame { return wal.Frame{Data: w} }

func keepalive(end wal.LSN) wal.Frame { return wal.Frame{End: end} }

// orders is a small table that the tests insert into.
var orders = &decode.Relation{ID: 16385, Schema: "public", Name: "orders", Columns: []decode.Column{
	{Name: "id", Type: 20, Key: true},
	{Name: "note", Type: 25},
}}
