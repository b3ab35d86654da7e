package decode_test

import (
	"encoding/binary"
	"path/filepath"
	"testing"

	"github.com/cdc-relay/cdc-relay/decode"
	"github.com/cdc-relay/cdc-relay/wal"
	"github.com/cdc-relay/cdc-relay/wal/waltest"
)

// emptyFrame marks data of no bytes in a packed session, where length 0 is a keepalive.
const emptyFrame = 0xffff

// pack writes frames into one byte string, each behind its length. unpack takes any byte
// string: a length that is more than what is left means all that is left.
func pack(frames ...wal.Frame) []byte {
	var out []byte
	for _, f := range frames {
		n := uint16(len(f.Data))
		if f.Data != nil && n == 0 {
			n = emptyFrame
		}
		out = append(binary.BigEndian.AppendUint16(out, n), f.Data...)
	}
	return out
}

func unpack(b []byte) []wal.Frame {
	var frames []wal.Frame
	for len(b) >= 2 {
		n := int(binary.BigEndian.Uint16(b))
		b = b[2:]
		switch {
		case n == 0:
			frames = append(frames, keepalive(wal.LSN(len(frames)+1)))
			continue
		case n == emptyFrame:
			n = 0
		}
		n = min(n, len(b))
		frames = append(frames, data(wire(b[:n:n])))
		b = b[n:]
	}
	return frames
}

func FuzzDecode(f *testing.F) {
	for _, tc := range everyMessage {
		f.Add(pack(append(tc.before[:len(tc.before):len(tc.before)], data(tc.msg))...))
	}
	for _, rec := range recordings {
		frames, err := waltest.ReadFile(filepath.Join("testdata", versions[0], rec.name+".frames"))
		if err != nil {
			f.Fatal(err)
		}
		if packed := pack(frames...); len(packed) < 4096 {
			f.Add(packed)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		g := guard{t: t, ref: newReference()}
		d := decode.New()
		for _, frame := range unpack(b) {
			c, err := d.Decode(frame)
			g.check(frame, c, err)
		}
	})
}

// guard follows a stream of any frames with a model as simple as can be, and checks what must
// hold whatever they are.
type guard struct {
	t      *testing.T
	ref    *reference
	err    error
	open   bool
	commit wal.LSN
	end    wal.LSN
	seq    uint32
}

func (g *guard) check(f wal.Frame, c decode.Change, err error) {
	if g.err != nil || err != nil {
		g.failed(c, err)
		return
	}
	if d := g.ref.compare(f, c); d != "" {
		g.t.Errorf("%q: %s", f.Data, d)
	}
	if outside := c.Kind == decode.Idle || c.Kind == decode.None || c.Kind == decode.Begin || c.Kind == decode.Message && !c.Msg.Transactional; !outside {
		if !g.open || c.Commit != g.commit {
			g.t.Errorf("%q: change %+v, with a transaction open: %t, which commits at %s", f.Data, c, g.open, g.commit)
		}
	}
	switch c.Kind {
	case decode.Begin:
		if g.open || c.Commit < g.end {
			g.t.Errorf("%q: begins at %s behind %s", f.Data, c.Commit, g.end)
		}
		g.open, g.commit, g.seq = true, c.Commit, 0
	case decode.Row:
		g.counts(c)
		g.borrows(f, c.Row)
	case decode.Message:
		if c.Msg.Counts() {
			g.counts(c)
		} else if c.Seq != 0 {
			g.t.Errorf("message %+v has the sequence %d and doesn't count", c.Msg, c.Seq)
		}
	case decode.Commit:
		if c.End <= c.Commit {
			g.t.Errorf("commit %s ends at %s", c.Commit, c.End)
		}
		g.open, g.end = false, c.End
	case decode.Idle:
		if g.open || f.Data != nil {
			g.t.Errorf("%q is idle, with a transaction open: %t", f.Data, g.open)
		}
	}
}

// failed checks that the first error stays, and that nothing comes with it.
func (g *guard) failed(c decode.Change, err error) {
	if g.err == nil {
		g.err = err
	}
	if err != g.err || c != (decode.Change{}) {
		g.t.Errorf("change %+v and error %v after the error %v", c, err, g.err)
	}
	if _, ok := err.(*decode.ProtocolError); !ok {
		g.t.Errorf("error %v is a %T", err, err)
	}
}

func (g *guard) counts(c decode.Change) {
	if c.Seq != g.seq {
		g.t.Errorf("sequence %d, want %d", c.Seq, g.seq)
	}
	g.seq++
}

// borrows checks that a row is whole and no greater than its frame.
func (g *guard) borrows(f wal.Frame, row *decode.Tuple) {
	size := 0
	for _, v := range row.Values {
		size += len(v.Text)
	}
	if len(row.Values) != len(row.Rel.Columns) || size > len(f.Data) {
		g.t.Errorf("%q: %d values of %d bytes for %d columns", f.Data, len(row.Values), size, len(row.Rel.Columns))
	}
}
