package oracle

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"hash"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Lengths go into the digest of headers, so that no two lists look the same. Two are none.
const (
	nullLength     = -1 // a null value
	positionLength = -2 // a value that the table can't know: the position
)

// headerSum makes the digests of a list of headers. It is SHA-256 over the length and the bytes
// of each name and value.
type headerSum struct{ hash.Hash }

func newHeaderSum() headerSum { return headerSum{sha256.New()} }

func (h headerSum) length(n int) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n))
	h.Write(b[:])
}

func (h headerSum) part(b []byte) {
	if b == nil {
		h.length(nullLength)
		return
	}
	h.length(len(b))
	h.Write(b)
}

func (h headerSum) digest() Digest { return Digest(binary.BigEndian.Uint64(h.Sum(nil))) }

// headers fills in what the oracle keeps of a record's headers.
func (r *Record) headers(hs []kgo.RecordHeader) {
	var position []byte
	for _, h := range hs {
		switch h.Key {
		case idHeader:
			r.ID = string(h.Value)
		case positionHeader:
			position = h.Value
			p, ok := parsePosition(h.Value)
			r.Position, r.Malformed = p, r.Malformed || !ok
		}
	}
	all, promised := newHeaderSum(), newHeaderSum()
	for _, h := range hs {
		all.part([]byte(h.Key))
		all.part(h.Value)
		promised.part([]byte(h.Key))
		// Where events are ordered by commits, the ordering key is the position.
		if h.Key == positionHeader || h.Key == orderingHeader && position != nil && bytes.Equal(h.Value, position) {
			promised.length(positionLength)
		} else {
			promised.part(h.Value)
		}
	}
	r.Headers, r.Promised = all.digest(), promised.digest()
}
