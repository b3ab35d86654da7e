package decode_test

import (
	"bytes"
	"fmt"
	"time"

	"github.com/jackc/pglogrepl"

	"github.com/cdc-relay/cdc-relay/decode"
	"github.com/cdc-relay/cdc-relay/wal"
)

// reference follows a stream with pglogrepl's parser. It is handed only what the decoder has
// accepted: pglogrepl takes memory by the lengths on the wire and indexes without checks.
type reference struct {
	relations map[uint32]*pglogrepl.RelationMessage
}

func newReference() *reference {
	return &reference{relations: map[uint32]*pglogrepl.RelationMessage{}}
}

// compare says in which field a change differs from the reference, or "".
func (r *reference) compare(f wal.Frame, c decode.Change) string {
	if f.Data == nil {
		if c.Kind != decode.Idle && c.Kind != decode.None {
			return fmt.Sprintf("a keepalive is of the kind %d", c.Kind)
		}
		return differ("end", c.End, map[bool]wal.LSN{true: f.End}[c.Kind == decode.Idle])
	}
	m, err := pglogrepl.Parse(f.Data)
	if err != nil {
		return r.excused(f.Data, err)
	}
	if d := differ("letter", rune(c.Op), rune(m.Type())); d != "" {
		return d
	}
	switch m := m.(type) {
	case *pglogrepl.BeginMessage:
		return first(differ("kind", c.Kind, decode.Begin), differ("commit LSN", c.Commit, wal.LSN(m.FinalLSN)), differTime(c.CommitTime, m.CommitTime))
	case *pglogrepl.CommitMessage:
		return first(differ("kind", c.Kind, decode.Commit), differ("commit LSN", c.Commit, wal.LSN(m.CommitLSN)), differ("end LSN", c.End, wal.LSN(m.TransactionEndLSN)))
	case *pglogrepl.InsertMessage:
		return first(differ("kind", c.Kind, decode.Row), r.row(c.Row, m))
	case *pglogrepl.LogicalDecodingMessage:
		return first(differ("kind", c.Kind, decode.Message), differ("transactional", c.Msg.Transactional, m.Transactional),
			differ("LSN", c.Msg.LSN, wal.LSN(m.LSN)), differ("prefix", c.Msg.Prefix, m.Prefix), differ("content", string(c.Msg.Content), string(m.Content)))
	case *pglogrepl.RelationMessage:
		r.relations[m.RelationID] = m
		return differ("kind", c.Kind, decode.None)
	case *pglogrepl.UpdateMessage, *pglogrepl.DeleteMessage, *pglogrepl.TruncateMessage:
		return differ("kind", c.Kind, decode.Ignored)
	default:
		return differ("kind", c.Kind, decode.None)
	}
}

// excused says whether the reference is known to refuse what is valid: it wants a least
// length that an insert into a table without columns, and a truncate of nothing, don't have.
func (r *reference) excused(data []byte, err error) string {
	if data[0] == 'I' && len(data) < 9 || data[0] == 'T' && len(data) < 10 {
		return ""
	}
	return "the reference refuses it: " + err.Error()
}

func (r *reference) row(row *decode.Tuple, m *pglogrepl.InsertMessage) string {
	rel := r.relations[m.RelationID]
	if rel == nil {
		return fmt.Sprintf("the reference knows no relation %d", m.RelationID)
	}
	d := first(differ("relation id", row.Rel.ID, m.RelationID), differ("schema", row.Rel.Schema, rel.Namespace), differ("table", row.Rel.Name, rel.RelationName),
		differ("number of columns", len(row.Rel.Columns), len(rel.Columns)), differ("number of values", len(row.Values), len(m.Tuple.Columns)))
	if d != "" {
		return d
	}
	for i, want := range rel.Columns {
		got := row.Rel.Columns[i]
		if d := differ("column", got, decode.Column{Name: want.Name, Type: want.DataType, Key: want.Flags&1 != 0}); d != "" {
			return d
		}
	}
	for i, want := range m.Tuple.Columns {
		got := row.Values[i]
		if got.Null != (want.DataType == 'n') || !bytes.Equal(got.Text, want.Data) || got.Null != (got.Text == nil) {
			return fmt.Sprintf("value of %s is %+v, the reference has kind %q and %q", rel.Columns[i].Name, got, want.DataType, want.Data)
		}
	}
	return ""
}

func differ[T comparable](what string, got, want T) string {
	if got == want {
		return ""
	}
	return fmt.Sprintf("%s is %v, the reference has %v", what, got, want)
}

// differTime compares times where the reference can hold them: it counts in nanoseconds of
// 64 bits, which end in 1677 and 2262.
func differTime(got, want time.Time) string {
	if y := got.Year(); y < 1700 || y > 2200 || got.Equal(want) {
		return ""
	}
	return fmt.Sprintf("time is %s, the reference has %s", got, want)
}

func first(differences ...string) string {
	for _, d := range differences {
		if d != "" {
			return d
		}
	}
	return ""
}
