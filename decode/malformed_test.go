package decode_test

import (
	"fmt"
	"testing"

	"github.com/cdc-relay/cdc-relay/decode"
	"github.com/cdc-relay/cdc-relay/wal"
)

// opened is the beginning of a stream: a transaction in which orders is known.
func opened(more ...wal.Frame) []wal.Frame {
	return append([]wal.Frame{data(begin(0x100, 0)), data(relation(orders))}, more...)
}

// everyMessage is one valid message of each kind and variant, with what must precede it.
var everyMessage = []struct {
	name   string
	before []wal.Frame
	msg    wire
}{
	{"begin", nil, begin(0x100, 5)},
	{"commit", opened(), commit(0x100, 0x130)},
	{"origin", opened(), origin(0x50, "elsewhere")},
	{"relation", nil, relation(orders)},
	{"relation without columns", nil, relation(&decode.Relation{ID: 1, Schema: "s", Name: "t"})},
	{"type", nil, typeName(16400, "public", "mood")},
	{"insert", opened(), insert(orders.ID, text("1"), text("abc"))},
	{"insert of NULL", opened(), insert(orders.ID, text("1"), null)},
	{"update", opened(), wire("U").u32(orders.ID).u8('N').tuple(text("1"), unchanged)},
	{"update with key", opened(), wire("U").u32(orders.ID).u8('K').tuple(text("1"), null).u8('N').tuple(text("2"), text("b"))},
	{"update with old row", opened(), wire("U").u32(orders.ID).u8('O').tuple(text("1"), text("a")).u8('N').tuple(text("2"), text("b"))},
	{"delete by key", opened(), wire("D").u32(orders.ID).u8('K').tuple(text("1"), null)},
	{"delete with old row", opened(), wire("D").u32(orders.ID).u8('O').tuple(text("1"), text("a"))},
	{"truncate", opened(), truncate(1, orders.ID, orders.ID)},
	{"message", nil, message(false, 0x80, "cdc_relay", "content")},
	{"transactional message", opened(), message(true, 0x80, "other", "")},
}

// Every proper prefix of a message is an error, and so is one byte more.
func TestLengthIsExact(t *testing.T) {
	for _, tc := range everyMessage {
		t.Run(tc.name, func(t *testing.T) {
			feed(t, decode.New(), append(tc.before[:len(tc.before):len(tc.before)], data(tc.msg))...)
			for n := range tc.msg {
				err := refused(t, append(tc.before[:len(tc.before):len(tc.before)], data(tc.msg[:n:n]))...)
				if n > 0 && err.Letter != tc.msg[0] {
					t.Errorf("cut at %d: error %q names the letter %q", n, err, err.Letter)
				}
				if err.Offset > n {
					t.Errorf("cut at %d: error %q is at byte %d", n, err, err.Offset)
				}
			}
			long := append(tc.msg[:len(tc.msg):len(tc.msg)], 0)
			err := refused(t, append(tc.before[:len(tc.before):len(tc.before)], data(long))...)
			if err.Offset > len(tc.msg) {
				t.Errorf("one byte more: error %q is at byte %d", err, err.Offset)
			}
		})
	}
}

func TestMalformed(t *testing.T) {
	insertHead := wire("I").u32(orders.ID)
	for _, tc := range []struct {
		name   string
		frames []wal.Frame
		letter byte
		offset int
		says   string
	}{
		{"empty", []wal.Frame{data(wire{})}, 0, 0, "it is empty"},
		{"trailing bytes", opened(data(insert(orders.ID, text("1"), null).u16(0))), 'I', 15, "2 bytes too many"},
		{"begin at zero", []wal.Frame{data(begin(0, 0))}, 'B', 1, "the commit LSN is 0/0"},
		{"commit flags", opened(data(wire("C").u8(1).u64(0x100).u64(0x130).u64(0))), 'C', 1, "the flags are 0x1"},
		{"message flags", []wal.Frame{data(wire("M").u8(2).u64(1).str("p").u32(0))}, 'M', 1, "the flags are 0x2"},
		{"message content too short", []wal.Frame{data(wire("M").u8(0).u64(1).str("p").u32(5).bytes([]byte("four")))}, 'M', 12, "the content says 5 bytes, 4 are left"},
		{"message content too long", []wal.Frame{data(wire("M").u8(0).u64(1).str("p").u32(3).bytes([]byte("four")))}, 'M', 19, "1 bytes too many"},
		{"message content negative", []wal.Frame{data(wire("M").u8(0).u64(1).str("p").u32(0xffffffff))}, 'M', 12, "the content says 4294967295 bytes, 0 are left"},
		{"prefix without end", []wal.Frame{data(wire("M").u8(0).u64(1).bytes([]byte("endless")))}, 'M', 10, "the prefix has no end"},
		{"name without end", []wal.Frame{data(wire("R").u32(1).str("s").bytes([]byte("endless")))}, 'R', 7, "the table's name has no end"},
		{"more columns than bytes", []wal.Frame{data(wire("R").u32(1).str("s").str("t").u8('d').u16(65535).bytes(make([]byte, 10)))}, 'R', 10, "65535 columns can't be in the 10 bytes"},
		{"fewer columns than bytes", []wal.Frame{data(wire("R").u32(1).str("s").str("t").u8('d').u16(0).bytes(make([]byte, 10)))}, 'R', 12, "10 bytes too many"},
		{"no tuple tag", opened(data(insertHead.u8('K').tuple(text("1"), null))), 'I', 5, `the tuple's tag is 'K'`},
		{"too few values", opened(data(insert(orders.ID, text("1")))), 'I', 6, "the row has 1 values, public.orders has 2 columns"},
		{"too many values", opened(data(insert(orders.ID, text("1"), null, null))), 'I', 6, "the row has 3 values, public.orders has 2 columns"},
		{"value longer than the message", opened(data(insertHead.u8('N').u16(2).u8('t').u32(1 << 30).bytes([]byte("1")))), 'I', 9, "a value says 1073741824 bytes, 1 are left"},
		{"value of negative length", opened(data(insertHead.u8('N').u16(2).u8('t').u32(0xffffffff).bytes([]byte("1")))), 'I', 9, "a value says 4294967295 bytes"},
		{"unchanged value in an insert", opened(data(insert(orders.ID, text("1"), unchanged))), 'I', 14, "public.orders.note is said to be unchanged"},
		{"binary value", opened(data(insert(orders.ID, cell{'b', "\x00"}, null))), 'I', 8, "public.orders.id is in binary format"},
		{"unheard-of kind", opened(data(insert(orders.ID, cell{kind: 'x'}, null))), 'I', 8, `public.orders.id is of the kind 'x'`},
		{"update tag", opened(data(wire("U").u32(orders.ID).u8('X').tuple(text("1"), null))), 'U', 5, `the tuple's tag is 'X'`},
		{"update with two old rows", opened(data(wire("U").u32(orders.ID).u8('K').tuple(text("1"), null).u8('O').tuple(text("1"), null).u8('N').tuple(text("1"), null))), 'U', 15, `the tuple's tag is 'O'`},
		{"update with too few values", opened(data(wire("U").u32(orders.ID).u8('N').tuple(text("1")))), 'U', 6, "the row has 1 values"},
		{"update, binary value", opened(data(wire("U").u32(orders.ID).u8('N').tuple(text("1"), cell{'b', "x"}))), 'U', 14, "binary format"},
		{"update, unheard-of kind", opened(data(wire("U").u32(orders.ID).u8('N').tuple(cell{kind: 'q'}, null))), 'U', 8, `the kind 'q'`},
		{"delete of a new row", opened(data(wire("D").u32(orders.ID).u8('N').tuple(text("1"), null))), 'D', 5, `the tuple's tag is 'N'`},
		{"delete with too many values", opened(data(wire("D").u32(orders.ID).u8('K').tuple(null, null, null))), 'D', 6, "the row has 3 values"},
		{"truncate of more than is there", opened(data(wire("T").u32(1 << 30).u8(0).u32(orders.ID))), 'T', 1, "1073741824 relation ids can't be in the 4 bytes"},
		{"truncate of so many that their size overflows", opened(data(wire("T").u32(1<<30 + 1).u8(0).u32(orders.ID))), 'T', 1, "1073741825 relation ids can't be in the 4 bytes"},
		{"truncate of fewer than is there", opened(data(wire("T").u32(1).u8(0).u32(orders.ID).u32(orders.ID))), 'T', 1, "1 relation ids can't be in the 8 bytes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := refused(t, tc.frames...)
			wantError(t, err, tc.letter, tc.says)
			if err.Offset != tc.offset {
				t.Errorf("error %q is at byte %d, want %d", err, err.Offset, tc.offset)
			}
			if err.Hint == "" {
				t.Errorf("error %q does not say what to do", err)
			}
		})
	}
}

// Messages that are sound in themselves and come where none can be.
func TestOutOfPlace(t *testing.T) {
	closed := opened(data(commit(0x100, 0x130)))
	after := func(more ...wal.Frame) []wal.Frame { return append(closed[:len(closed):len(closed)], more...) }
	for _, tc := range []struct {
		name   string
		frames []wal.Frame
		letter byte
		says   string
	}{
		{"insert before any begin", []wal.Frame{data(relation(orders)), data(insert(orders.ID, text("1"), null))}, 'I', "outside any transaction"},
		{"insert after the commit", after(data(insert(orders.ID, text("1"), null))), 'I', "outside any transaction"},
		{"update", after(data(wire("U").u32(orders.ID).u8('N').tuple(text("1"), null))), 'U', "outside any transaction"},
		{"delete", after(data(wire("D").u32(orders.ID).u8('K').tuple(text("1"), null))), 'D', "outside any transaction"},
		{"truncate", after(data(truncate(0, orders.ID))), 'T', "outside any transaction"},
		{"transactional message", after(data(message(true, 1, "cdc_relay", ""))), 'M', "outside any transaction"},
		{"foreign transactional message", after(data(message(true, 1, "other", ""))), 'M', "outside any transaction"},
		{"origin", after(data(origin(1, "x"))), 'O', "outside any transaction"},
		{"commit first", []wal.Frame{data(commit(0x100, 0x130))}, 'C', "outside any transaction"},
		{"commit twice", after(data(commit(0x100, 0x130))), 'C', "outside any transaction"},
		{"begin twice", opened(data(begin(0x200, 0))), 'B', "the transaction before it has not ended"},
		{"commit of another transaction", opened(data(commit(0x101, 0x130))), 'C', "the commit LSN is 0/101, that of its begin is 0/100"},
		{"commit that ends where it begins", opened(data(commit(0x100, 0x100))), 'C', "the end LSN is 0/100, not after the commit LSN 0/100"},
		{"commit that ends at zero", opened(data(commit(0x100, 0))), 'C', "the end LSN is 0/0"},
		{"commits run backwards", after(data(begin(0x12f, 0))), 'B', "it commits at 0/12F, before 0/130"},
		{"insert into an unknown relation", opened(data(insert(999, text("1"), null))), 'I', "no relation 999 was announced"},
		{"update of an unknown relation", opened(data(wire("U").u32(999).u8('N').tuple())), 'U', "no relation 999 was announced"},
		{"delete from an unknown relation", opened(data(wire("D").u32(999).u8('K').tuple())), 'D', "no relation 999 was announced"},
		{"truncate of an unknown relation", opened(data(truncate(0, orders.ID, 999))), 'T', "no relation 999 was announced"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			wantError(t, refused(t, tc.frames...), tc.letter, tc.says)
		})
	}
}

// Two transactions may commit back to back: the one's record begins where the other's ends.
func TestAdjacentCommits(t *testing.T) {
	got := feed(t, decode.New(), data(begin(0x100, 0)), data(commit(0x100, 0x130)), data(begin(0x130, 0)), data(commit(0x130, 0x160)))
	if got[1].End != got[2].Commit {
		t.Errorf("end %s, next commit %s", got[1].End, got[2].Commit)
	}
}

func TestUnknownLetters(t *testing.T) {
	known := map[byte]bool{}
	for _, c := range []byte("BCRYOIUDTM") {
		known[c] = true
	}
	later := map[byte]string{
		'S': "stream start", 'E': "stream stop", 'c': "stream commit", 'A': "stream abort", 'b': "begin prepare",
		'P': "prepare", 'K': "commit prepared", 'r': "rollback prepared", 'p': "stream prepare",
	}
	for n := range 256 {
		letter := byte(n)
		if known[letter] {
			continue
		}
		err := refused(t, data(wire{letter, 0, 0, 0, 0, 0, 0, 0, 0}))
		if name, ok := later[letter]; ok {
			wantError(t, err, letter, fmt.Sprintf("%q", rune(letter)), name, "protocol 1 does not have it", "proto_version 1")
		} else if letter != 0 {
			wantError(t, err, letter, fmt.Sprintf("%q", rune(letter)), "no message of the protocol has this letter")
		}
	}
}

func TestErrorNamesTheTransaction(t *testing.T) {
	inside := refused(t, opened(data(insert(999)))...)
	if inside.Commit != 0x100 {
		t.Errorf("commit %s, want 0/100", inside.Commit)
	}
	wantError(t, inside, 'I', "decode pgoutput message 'I' (insert) at byte 1 in the transaction that commits at 0/100: no relation 999")
	outside := refused(t, opened(data(commit(0x100, 0x130)), data(commit(0x100, 0x130)))...)
	if outside.Commit != 0 {
		t.Errorf("outside any transaction, the error names the last one, %s", outside.Commit)
	}
}
