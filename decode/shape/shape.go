package shape

import (
	"errors"
	"fmt"
	"time"

	"github.com/cdc-relay/cdc-relay/decode"
	"github.com/cdc-relay/cdc-relay/wal"
)

// KeysMode says where the keys of an event come from.
type KeysMode string

const (
	// KeysDerived computes the keys from id, event_type, entity_id and created_at, and ignores
	// the row's key columns even where they are filled. It is the default.
	KeysDerived KeysMode = "derived"
	// KeysStored takes the keys from the row's own columns.
	KeysStored KeysMode = "stored"
)

// OrderingMode says what the ordering key of an event is.
type OrderingMode string

const (
	// OrderingRow takes it from the row: created_at and id, or the column ordering_key where
	// keys are stored. It is the default. It can contradict the order of commits.
	OrderingRow OrderingMode = "row"
	// OrderingCommit takes the event's position, with any keys mode.
	OrderingCommit OrderingMode = "commit"
)

// Config describes one outbox.
type Config struct {
	Table string // schema-qualified name, for messages
	Topic string // of all its events
	// Keys and Ordering are part of the contract: a change gives events another identity.
	// Empty means the default.
	Keys     KeysMode
	Ordering OrderingMode
	// Tombstones: a NULL payload is an event with a null value. Otherwise it is rejected.
	Tombstones bool
}

// Shape turns rows of one outbox into events. It keeps buffers between calls, so it serves
// one goroutine; the events that it returns don't depend on it.
type Shape struct {
	cfg     Config
	lay     *layout            // of the last row
	layouts map[uint32]*layout // by relation id: an outbox has as many as it has partitions

	buf   []byte      // what the event's slices will hold, but the value
	names []byte      // names of the row's headers
	rows  []rowHeader // where they lie
	json  scanner
}

// bufferKeep is the size above which a buffer is given back after the event that needed it,
// so that one huge row doesn't stay in memory.
const bufferKeep = 64 << 10

// New checks a configuration and returns its Shape.
func New(cfg Config) (*Shape, error) {
	if cfg.Keys == "" {
		cfg.Keys = KeysDerived
	}
	if cfg.Ordering == "" {
		cfg.Ordering = OrderingRow
	}
	var errs []error
	if cfg.Table == "" {
		errs = append(errs, errors.New("outbox shape: no table"))
	}
	if cfg.Topic == "" {
		errs = append(errs, errors.New("outbox shape: no topic; the default preset needs topic.name"))
	}
	if cfg.Keys != KeysDerived && cfg.Keys != KeysStored {
		errs = append(errs, fmt.Errorf("outbox shape: keys %q: unknown; use %q or %q", cfg.Keys, KeysDerived, KeysStored))
	}
	if cfg.Ordering != OrderingRow && cfg.Ordering != OrderingCommit {
		errs = append(errs, fmt.Errorf("outbox shape: ordering_key %q: unknown; use %q or %q", cfg.Ordering, OrderingRow, OrderingCommit))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return &Shape{cfg: cfg, layouts: make(map[uint32]*layout)}, nil
}

// Event makes the event of a row that was committed at commitTime and lies at pos. It keeps
// nothing of t.
//
// A *RejectError says that this row can't be an event, a *ColumnsError that no row of its
// relation can. The event is empty with an error.
func (s *Shape) Event(t *decode.Tuple, pos wal.Position, commitTime time.Time) (Event, error) {
	l, err := s.layoutOf(t.Rel)
	if err != nil {
		return Event{}, err
	}
	if len(t.Values) != l.columns {
		return Event{}, fmt.Errorf("row of %s: %d values for %d columns", s.cfg.Table, len(t.Values), l.columns)
	}
	r := row{l: l, values: t.Values}
	created, err := s.createdAt(r)
	if err != nil {
		return Event{}, err
	}
	s.buf, s.names, s.rows = s.buf[:0], s.names[:0], s.rows[:0]
	k, err := s.keys(r, created, pos)
	if err != nil {
		return Event{}, err
	}
	if err := s.rowHeaders(r); err != nil {
		return Event{}, err
	}
	valueLen, err := s.checkValue(r)
	if err != nil {
		return Event{}, err
	}
	e := s.assemble(r, k, valueLen)
	e.Position = pos
	e.Topic = s.cfg.Topic
	e.TimestampMs = recordTime(created, commitTime)
	e.CommitTime = commitTime
	s.trim()
	return e, nil
}

// assemble copies what was found into memory of the event's own: one piece for all bytes,
// one for all strings, one for the headers. Slices that hold the same bytes share them; none
// has room to grow into its neighbour.
func (s *Shape) assemble(r row, k keys, valueLen int) Event {
	arena := make([]byte, len(s.buf)+valueLen)
	value := arena[copy(arena, s.buf):]
	s.copyValue(value, r)

	s.names = append(s.names, k.dedupe.of(arena)...)
	text := string(s.names)

	e := Event{
		Key:       k.partition.of(arena),
		Value:     value,
		Headers:   make([]Header, ownHeaders, ownHeaders+len(s.rows)),
		DedupeKey: text[len(text)-k.dedupe.len():],
	}
	if r.at(r.l.payload).Null {
		e.Value = nil
	}
	dedupe := k.dedupe.of(arena)
	if e.ShardKey = e.Key; e.Key == nil {
		e.ShardKey = dedupe
	}
	e.Headers[0] = Header{HeaderEventID, dedupe}
	e.Headers[1] = Header{HeaderEventType, k.eventType.of(arena)}
	e.Headers[2] = Header{HeaderDedupeKey, dedupe}
	e.Headers[3] = Header{HeaderOrderingKey, k.ordering.of(arena)}
	e.Headers[4] = Header{HeaderPosition, k.position.of(arena)}
	for _, h := range s.rows {
		e.Headers = append(e.Headers, Header{text[h.name.from:h.name.to], h.value.of(arena)})
	}
	return e
}

func (s *Shape) trim() {
	if cap(s.buf) > bufferKeep {
		s.buf = nil
	}
	if cap(s.names) > bufferKeep {
		s.names = nil
	}
	if cap(s.rows) > bufferKeep/32 {
		s.rows = nil
	}
	if s.json.b = nil; cap(s.json.nest) > bufferKeep {
		s.json.nest = nil
	}
}

// row is a tuple seen through its layout.
type row struct {
	l      *layout
	values []decode.Value
}

// at returns a column's value; a column that the table doesn't have is NULL.
func (r row) at(column int) decode.Value {
	if column < 0 {
		return decode.Value{Null: true}
	}
	return r.values[column]
}

// span is a piece of a buffer. The zero span stands for NULL: it has no bytes and isn't
// there, while an empty piece is.
type span struct {
	from, to int
	there    bool
}

func (p span) len() int { return p.to - p.from }

// of returns the piece of b, without room to grow; nil for NULL.
func (p span) of(b []byte) []byte {
	if !p.there {
		return nil
	}
	return b[p.from:p.to:p.to]
}

// since returns what was appended to b from from on.
func since(b []byte, from int) span { return span{from, len(b), true} }
