package decode

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/cdc-relay/cdc-relay/wal"
)

// reader walks over one message and never past its end. The first failure sticks: from then
// on every read gives zero, so a parser may read a fixed run of fields and ask once. A loop
// asks in every round.
type reader struct {
	data []byte
	off  int
	bad  bool
	at   int    // where the failure is
	what string // what the failure is
	hint string
}

// left is the number of bytes not yet read.
func (r *reader) left() int { return len(r.data) - r.off }

// fail notes the first failure at the offset at.
func (r *reader) fail(at int, hint, format string, args ...any) {
	if r.bad {
		return
	}
	r.bad, r.at, r.hint = true, at, hint
	r.what = fmt.Sprintf(format, args...)
}

// take gives the next n bytes, or nil if they aren't there. What it gives can't be appended
// to in place.
func (r *reader) take(n int, field string) []byte {
	if r.bad {
		return nil
	}
	if n > r.left() {
		r.fail(r.off, hintDamaged, "%s needs %d bytes, %d are left", field, n, r.left())
		return nil
	}
	b := r.data[r.off : r.off+n : r.off+n]
	r.off += n
	return b
}

func (r *reader) byte(field string) byte {
	if b := r.take(1, field); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) uint16(field string) uint16 {
	if b := r.take(2, field); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (r *reader) uint32(field string) uint32 {
	if b := r.take(4, field); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (r *reader) uint64(field string) uint64 {
	if b := r.take(8, field); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (r *reader) lsn(field string) wal.LSN { return wal.LSN(r.uint64(field)) }

// text gives the bytes up to the next NUL, which it steps over.
func (r *reader) text(field string) []byte {
	if r.bad {
		return nil
	}
	n := bytes.IndexByte(r.data[r.off:], 0)
	if n < 0 {
		r.fail(r.off, hintDamaged, "%s has no end", field)
		return nil
	}
	b := r.data[r.off : r.off+n]
	r.off += n + 1
	return b
}

// sized gives a run of bytes that is preceded by its length. On the wire the length is a
// signed 32-bit number, so a greater one is more than the frame can hold as well.
func (r *reader) sized(field string) []byte {
	at := r.off
	n := r.uint32(field)
	if r.bad {
		return nil
	}
	if uint64(n) > uint64(r.left()) {
		r.fail(at, hintDamaged, "%s says %d bytes, %d are left", field, n, r.left())
		return nil
	}
	return r.take(int(n), field)
}

// end demands that the message ends here.
func (r *reader) end() {
	if !r.bad && r.left() > 0 {
		r.fail(r.off, hintDamaged, "%d bytes too many", r.left())
	}
}
