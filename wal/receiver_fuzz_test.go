package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// received is what came out of a stream.
type received struct {
	frames  []Frame // a keepalive has no Data
	notices int
	named   LSN
	reply   bool
	end     string // how it ended, empty where more could follow
}

func (r received) differs(o received) string {
	for i := range min(len(r.frames), len(o.frames)) {
		a, b := r.frames[i], o.frames[i]
		if a.End != b.End || !a.At.Equal(b.At) || (a.Data == nil) != (b.Data == nil) || !bytes.Equal(a.Data, b.Data) {
			return fmt.Sprintf("frame %d is %v %v %.40q, want %v %v %.40q", i, a.End, a.At, a.Data, b.End, b.At, b.Data)
		}
	}
	if len(r.frames) != len(o.frames) {
		return fmt.Sprintf("%d frames, want %d", len(r.frames), len(o.frames))
	}
	if r.notices != o.notices || r.named != o.named || r.reply != o.reply || r.end != o.end {
		return fmt.Sprintf("%d notices, named %v, asked for a reply: %t, ended by %q; want %d, %v, %t, %q",
			r.notices, r.named, r.reply, r.end, o.notices, o.named, o.reply, o.end)
	}
	return ""
}

// split takes a whole stream apart in the simplest way: no reads, no slabs, no batches.
func split(in []byte) (want received) {
	for len(in) >= 5 && want.end == "" {
		size := binary.BigEndian.Uint32(in[1:5])
		if size < 4 || size >= 1<<30 {
			want.end = "broken"
		} else if uint64(len(in)) < 1+uint64(size) {
			return want
		} else {
			want.message(in[0], in[5:1+size])
			in = in[1+size:]
		}
	}
	return want
}

func (r *received) message(letter byte, body []byte) {
	switch letter {
	case 'd':
		r.copied(body)
	case 'E':
		r.end = "the server's error"
		if new(pgproto3.ErrorResponse).Decode(body) != nil {
			r.end = "broken"
		}
	case 'N':
		var n pgproto3.NoticeResponse
		switch err := n.Decode(body); {
		case err != nil:
			r.end = "broken"
		case n.Code == "55000":
			r.end = "a publication is missing"
		default:
			r.notices++
		}
	case 'c', 'C':
		r.end = "the stream's end"
	case 'S', 'A':
	default:
		r.end = "broken"
	}
}

// copied is what CopyData holds: w, start, end, clock, data; or k, end, clock, reply.
func (r *received) copied(body []byte) {
	number := func(at int) uint64 { return binary.BigEndian.Uint64(body[at : at+8]) }
	clock := func(at int) time.Time {
		const from1970to2000 = 10_957 * 24 * 60 * 60 * 1_000_000
		return time.UnixMicro(int64(number(at)) + from1970to2000)
	}
	switch {
	case len(body) >= 25 && body[0] == 'w':
		f := Frame{End: LSN(number(1)), At: clock(17), Data: append([]byte{}, body[25:]...)}
		r.frames, r.named = append(r.frames, f), max(r.named, f.End)
	case len(body) == 18 && body[0] == 'k':
		f := Frame{End: LSN(number(1)), At: clock(9)}
		r.named, r.reply = max(r.named, f.End), r.reply || body[17] != 0
		// Behind a keepalive only one that says more is handed on.
		if last := len(r.frames) - 1; last >= 0 && r.frames[last].Data == nil && r.frames[last].End > 0 && f.End <= r.frames[last].End {
			return
		}
		r.frames = append(r.frames, f)
	default:
		r.end = "broken"
	}
}

// drain reads a stream as Run does, and gives each batch back as soon as it is copied.
func drain(in []byte, before, size int) (got received) {
	r := newReceiver(&chunks{in[before:], func() int { return size }}, in[:before], 0, func(*pgconn.PgError) { got.notices++ })
	err := r.parse()
	for err == nil {
		if r.need > len(in)+messageHeader { // claims more than there is
			break
		}
		if r.complete || r.full() {
			got.batch(r.take())
		}
		_, readErr := r.read()
		if err = r.parse(); readErr != nil {
			break
		}
	}
	r.need = messageHeader // no room for what will never come
	got.batch(r.take())    // an error comes behind what was found before it
	got.named, got.reply = r.named, r.reply
	var missing *missingNotice
	var said *pgconn.PgError
	switch {
	case err == nil:
	case errors.Is(err, errServerEnded):
		got.end = "the stream's end"
	case errors.As(err, &missing):
		got.end = "a publication is missing"
	case errors.As(err, &said):
		got.end = "the server's error"
	default:
		got.end = "broken"
	}
	return got
}

func (r *received) batch(b *Batch) {
	if b == nil {
		return
	}
	for _, f := range b.Frames {
		if f.Data != nil {
			f.Data = append([]byte{}, f.Data...)
		}
		r.frames = append(r.frames, f)
	}
	b.Release()
}

// Whatever comes in, and in whatever pieces, what comes out is what the simplest reading of the
// whole finds. It doesn't panic or loop either.
func FuzzReceiver(f *testing.F) {
	stream, _ := transaction()
	data, keep := copyData(dataMessage(7, 7, 7, "row")), copyData(keepalive(7, 7, 1))
	f.Add(stream, uint8(7))
	f.Add(slices.Concat(keep, keep, data, keep, copyData(keepalive(8, 8, 0)), data), uint8(20))
	f.Add(slices.Concat(copyData(keepalive(0, 0, 0)), copyData(keepalive(0, 1, 0)), copyData(dataMessage(0, 0, 0, ""))), uint8(0))
	f.Add(slices.Concat(data, []byte("S\x00\x00\x00\x08a\x00b\x00"), data, []byte("c\x00\x00\x00\x04"), data), uint8(30))
	f.Add(slices.Concat(data, copyData([]byte("x")), data), uint8(2))
	f.Add(slices.Concat(data, []byte("N\x00\x00\x00\x15SWARNING\x00C01000\x00\x00"), data), uint8(50))
	f.Add(slices.Concat(data, []byte("d\x00\x00\x00\x03"), data), uint8(9))
	f.Add([]byte("d\x00\x00\x00\x04"), uint8(1))
	f.Add([]byte("N\x00\x00\x00\x15SWARNING\x00C55000\x00\x00"), uint8(3))
	f.Add([]byte("E\x00\x00\x00\x05\x00C\x00\x00\x00\x04"), uint8(200))
	f.Fuzz(func(t *testing.T, in []byte, size uint8) {
		splits(t, in, 1<<20, 1+int(size))
	})
}

// The same over the ends of slabs, with streams too long for the fuzzer to be quick.
func TestReceiverSplits(t *testing.T) {
	stream, _ := transaction()
	row := copyData(dataMessage(9, 9, 9, strings.Repeat("x", slabSize/3)))
	huge := copyData(dataMessage(9, 9, 9, strings.Repeat("x", 2*slabSize)))
	splits(t, slices.Concat(bytes.Repeat(stream, 1+2*slabSize/len(stream)), row, row, huge, stream), 100, 8192, slabSize, 1<<20)
}

// splits compares the receiver, at several sizes of a read, with the simplest reading.
func splits(t *testing.T, in []byte, sizes ...int) {
	t.Helper()
	want := split(in)
	for _, size := range sizes {
		before := min(len(in), size, slabSize) / 2 // read before the stream was ours
		if diff := drain(bytes.Clone(in), before, size).differs(want); diff != "" {
			t.Fatalf("%d bytes a read: %s", size, diff)
		}
	}
}
