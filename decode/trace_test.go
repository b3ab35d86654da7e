package decode_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"github.com/cdc-relay/cdc-relay/decode"
)

// tracer prints changes so that somebody who knows Postgres can check them by eye.
type tracer struct {
	out    strings.Builder
	shapes map[uint32]*decode.Relation
}

func trace(about string, changes []decode.Change) string {
	tr := tracer{shapes: map[uint32]*decode.Relation{}}
	fmt.Fprintf(&tr.out, "# %s\n", about)
	for _, c := range changes {
		tr.change(c)
	}
	return tr.out.String()
}

func (tr *tracer) line(format string, args ...any) { fmt.Fprintf(&tr.out, format+"\n", args...) }

func (tr *tracer) change(c decode.Change) {
	switch c.Kind {
	case decode.None:
		if c.Op == 0 {
			tr.line("  keepalive")
		} else {
			tr.line("  none %c", c.Op)
		}
	case decode.Begin:
		tr.line("begin %s at %s", c.Commit, c.CommitTime.Format(time.RFC3339Nano))
	case decode.Row:
		tr.row(c)
	case decode.Message:
		tr.message(c)
	case decode.Commit:
		tr.line("commit %s end %s", c.Commit, c.End)
	case decode.Idle:
		tr.line("idle %s", c.End)
	case decode.Ignored:
		tr.line("  ignored %c", c.Op)
	}
}

func (tr *tracer) row(c decode.Change) {
	rel := c.Row.Rel
	if tr.shapes[rel.ID] != rel {
		tr.shapes[rel.ID] = rel
		var cols []string
		for _, col := range rel.Columns {
			s := fmt.Sprintf("%s %d", col.Name, col.Type)
			if col.Key {
				s += " key"
			}
			cols = append(cols, s)
		}
		tr.line("  shape %d is %q.%q (%s)", rel.ID, rel.Schema, rel.Name, strings.Join(cols, ", "))
	}
	var values []string
	for i, v := range c.Row.Values {
		s := rel.Columns[i].Name + "=" + abbreviate(v.Text)
		if v.Null {
			s = rel.Columns[i].Name + "=NULL"
		}
		values = append(values, s)
	}
	if values == nil {
		values = []string{"no columns"}
	}
	tr.line("  row %d of %d: %s", c.Seq, rel.ID, strings.Join(values, " "))
}

func (tr *tracer) message(c decode.Change) {
	what, indent := "message", ""
	if c.Msg.Transactional {
		indent = "  "
		what += " in the transaction"
	}
	if c.Msg.Counts() {
		what += fmt.Sprintf(" %d", c.Seq)
	}
	if c.Msg.Own {
		what += " (own)"
	}
	tr.line("%s%s at %s, prefix %q: %s", indent, what, c.Msg.LSN, c.Msg.Prefix, abbreviate(c.Msg.Content))
}

// abbreviate quotes a value, and a long one by its beginning, length and hash.
func abbreviate(b []byte) string {
	const most = 400
	if len(b) <= most {
		return fmt.Sprintf("%q", b)
	}
	return fmt.Sprintf("%q... (%d bytes, sha256 %x)", b[:32], len(b), sha256.Sum256(b))
}
