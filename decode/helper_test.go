package decode_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/decode"
	"github.com/cdc-relay/cdc-relay/wal"
)

// feed decodes frames that must all be valid and keeps a copy of what each meant.
func feed(t testing.TB, d *decode.Decoder, frames ...wal.Frame) []decode.Change {
	t.Helper()
	var out []decode.Change
	for i, f := range frames {
		c, err := d.Decode(f)
		if err != nil {
			t.Fatalf("frame %d (%.1q): %v", i, f.Data, err)
		}
		out = append(out, clone(c))
	}
	return out
}

// clone copies what a change borrows. The pointer to the relation stays: it identifies a
// shape.
func clone(c decode.Change) decode.Change {
	if c.Row != nil {
		row := &decode.Tuple{Rel: c.Row.Rel}
		for _, v := range c.Row.Values {
			if v.Text != nil {
				v.Text = append([]byte{}, v.Text...)
			}
			row.Values = append(row.Values, v)
		}
		c.Row = row
	}
	if c.Msg != nil {
		m := *c.Msg
		m.Content = append([]byte{}, m.Content...)
		c.Msg = &m
	}
	return c
}

// refused decodes frames of which only the last is wrong, and gives its error. It checks
// what holds for every error: it is typed, gives no change, and is repeated for ever.
func refused(t testing.TB, frames ...wal.Frame) *decode.ProtocolError {
	t.Helper()
	d := decode.New()
	last := len(frames) - 1
	feed(t, d, frames[:last]...)
	c, err := d.Decode(frames[last])
	var pe *decode.ProtocolError
	if !errors.As(err, &pe) {
		t.Fatalf("frame %q: got change %+v and error %v, want a *ProtocolError", frames[last].Data, c, err)
	}
	if c != (decode.Change{}) {
		t.Errorf("an error came with the change %+v", c)
	}
	for _, f := range []wal.Frame{data(begin(1<<40, 0)), keepalive(1 << 41), data(message(false, 1, "x", "y")), frames[0]} {
		c, again := d.Decode(f)
		if again != err {
			t.Errorf("after an error, %q: error %v, want the same one again", f.Data, again)
		}
		if c != (decode.Change{}) {
			t.Errorf("after an error, %q: change %+v", f.Data, c)
		}
	}
	return pe
}

// wantError checks an error's letter and that its text holds each part.
func wantError(t *testing.T, err *decode.ProtocolError, letter byte, parts ...string) {
	t.Helper()
	if err.Letter != letter {
		t.Errorf("letter %q, want %q", err.Letter, letter)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q does not say %q", err, p)
		}
	}
}
