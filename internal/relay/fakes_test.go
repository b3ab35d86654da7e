package relay

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cdc-relay/cdc-relay/checkpoint"
	"github.com/cdc-relay/cdc-relay/decode"
	"github.com/cdc-relay/cdc-relay/decode/shape"
	"github.com/cdc-relay/cdc-relay/shard"
	"github.com/cdc-relay/cdc-relay/wal"
)

// wire builds pgoutput messages by hand, so that these tests don't rest on the decoder's own idea
// of the format.
type wire struct{ b []byte }

func (w *wire) u8(v byte) *wire    { w.b = append(w.b, v); return w }
func (w *wire) u16(v int) *wire    { w.b = binary.BigEndian.AppendUint16(w.b, uint16(v)); return w }
func (w *wire) u32(v int) *wire    { w.b = binary.BigEndian.AppendUint32(w.b, uint32(v)); return w }
func (w *wire) u64(v int64) *wire  { w.b = binary.BigEndian.AppendUint64(w.b, uint64(v)); return w }
func (w *wire) str(s string) *wire { w.b = append(append(w.b, s...), 0); return w }

// pgEpoch is 2000-01-01, the epoch of Postgres' timestamps.
var pgEpoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// committed is the commit time of every scripted transaction.
var committed = pgEpoch.Add(26 * 365 * 24 * time.Hour)

func begin(commit wal.LSN) wal.Frame {
	w := (&wire{}).u8('B').u64(int64(commit)).u64(committed.Sub(pgEpoch).Microseconds()).u32(7)
	return wal.Frame{End: commit, Data: w.b}
}

func commit(commit, end wal.LSN) wal.Frame {
	w := (&wire{}).u8('C').u8(0).u64(int64(commit)).u64(int64(end)).u64(committed.Sub(pgEpoch).Microseconds())
	return wal.Frame{End: end, Data: w.b}
}

func idle(end wal.LSN) wal.Frame { return wal.Frame{End: end} }

// columns are those that an event needs, with the OIDs of int8, text, jsonb and timestamptz.
var columns = []struct {
	name string
	oid  int
}{{"id", 20}, {"entity_id", 25}, {"event_type", 25}, {"dedupe_key", 25}, {"partition_key", 25}, {"ordering_key", 25}, {"payload", 3802}, {"created_at", 1184}}

func relation(id int, schema, name string) wal.Frame {
	w := (&wire{}).u8('R').u32(id).str(schema).str(name).u8('d').u16(len(columns))
	for _, c := range columns {
		w.u8(0).str(c.name).u32(c.oid).u32(-1)
	}
	return wal.Frame{Data: w.b}
}

// insert makes a row; a column that isn't named is NULL.
func insert(rel int, values map[string]string) wal.Frame {
	w := (&wire{}).u8('I').u32(rel).u8('N').u16(len(columns))
	for _, c := range columns {
		if v, ok := values[c.name]; ok {
			w.u8('t').u32(len(v))
			w.b = append(w.b, v...)
		} else {
			w.u8('n')
		}
	}
	return wal.Frame{Data: w.b}
}

func order(id, entity string) map[string]string {
	return map[string]string{"id": id, "entity_id": entity, "event_type": "order.created", "payload": `{"n": ` + id + `}`, "created_at": "2025-12-26 00:00:00+00"}
}

func message(transactional byte, prefix string) wal.Frame {
	w := (&wire{}).u8('M').u8(transactional).u64(9).str(prefix).u32(2)
	w.b = append(w.b, "{}"...)
	return wal.Frame{Data: w.b}
}

// source is a scripted replication connection.
type source struct {
	frames []wal.Frame
	fail   error         // what Run returns after the frames; nil: it stays until ctx ends
	late   time.Duration // how long after it closed its channel it returns fail
	refuse error         // what Start returns
	pace   time.Duration // between two frames

	mu      sync.Mutex
	started wal.LSN
	told    wal.LSN // what was stored when the stream began
	final   wal.LSN // what was stored when the stream was ended cleanly
	ended   bool    // it streams no more
	closed  bool
}

func (s *source) Start(_ context.Context, start wal.LSN) error { s.started = start; return s.refuse }
func (s *source) Received() wal.LSN                            { return 0 }
func (s *source) Close() error                                 { s.mu.Lock(); defer s.mu.Unlock(); s.closed = true; return nil }

func (s *source) isClosed() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.closed }
func (s *source) hasEnded() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.ended }

func (s *source) Run(ctx context.Context, st wal.Stored, out chan<- *wal.Batch) error {
	err := s.stream(ctx, st, out)
	close(out)
	if err != nil {
		<-time.After(s.late)
	}
	return err
}

func (s *source) stream(ctx context.Context, st wal.Stored, out chan<- *wal.Batch) error {
	defer func() { s.mu.Lock(); defer s.mu.Unlock(); s.ended = true }()
	s.told = st.Stored()
	for _, f := range s.frames {
		<-time.After(s.pace)
		select {
		case out <- &wal.Batch{Frames: []wal.Frame{f}}:
		case <-ctx.Done():
			s.final = st.Stored()
			return nil
		}
	}
	<-time.After(s.pace)
	if s.fail != nil {
		return s.fail
	}
	<-ctx.Done()
	s.final = st.Stored()
	return nil
}

// origins hands out scripted sources in turn; the last one again and again.
type origins struct {
	sources  []*source
	start    func() wal.LSN
	lineages wal.Lineages // nil: one for everything
	count    atomic.Int64 // of calls that opened one
	err      error
}

// opened is how many connections were made.
func (o *origins) opened() int { return int(o.count.Load()) }

func (o *origins) Open(context.Context) (Source, Origin, error) {
	if o.err != nil {
		return nil, Origin{}, o.err
	}
	sh, err := shape.New(shape.Config{Table: "public.outbox", Topic: "orders"})
	if err != nil {
		return nil, Origin{}, err
	}
	s := o.sources[min(o.opened(), len(o.sources)-1)]
	o.count.Add(1)
	lineages := o.lineages
	if lineages == nil {
		lineages = wal.Lineages{{No: 1}}
	}
	return s, Origin{Start: o.start(), Lineages: lineages, Shape: sh}, nil
}

// store is a durable row in memory.
type store struct {
	mu     sync.Mutex
	stored wal.LSN
	saves  []wal.LSN
	takes  int
	owned  bool // by the relay, since it took the row
	lost   bool
	fail   error
}

func (s *store) Take(context.Context) (wal.LSN, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takes++
	if s.lost {
		return 0, checkpoint.ErrOwnerLost
	}
	s.owned = true
	return s.stored, nil
}

// failWith makes every statement fail, or work again.
func (s *store) failWith(err error) { s.mu.Lock(); defer s.mu.Unlock(); s.fail = err }

// lose gives the row to another relay, or back. A relay without the row can't take it.
func (s *store) lose(lost bool) { s.mu.Lock(); defer s.mu.Unlock(); s.lost = lost }

func (s *store) CheckOwner(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost || !s.owned {
		return checkpoint.ErrOwnerLost
	}
	return s.fail
}

func (s *store) at() wal.LSN { s.mu.Lock(); defer s.mu.Unlock(); return s.stored }

func (s *store) Save(_ context.Context, l wal.LSN) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost || !s.owned {
		return checkpoint.ErrOwnerLost
	}
	if s.fail != nil {
		return s.fail
	}
	if l < s.stored {
		return errors.New("went backwards")
	}
	s.stored = l
	s.saves = append(s.saves, l)
	return nil
}

// set has somebody else change the row.
func (s *store) set(l wal.LSN) { s.mu.Lock(); defer s.mu.Unlock(); s.stored = l }

// writes is how often the position was written.
func (s *store) writes() int { s.mu.Lock(); defer s.mu.Unlock(); return len(s.saves) }

// tables knows relations by name; what it doesn't know does not exist.
type tables map[string]decode.Class

func (c tables) Classify(_ context.Context, _ uint32, schema, name string) (decode.Class, error) {
	return c[schema+"."+name], nil
}

// contracts pins twelve partitions for every topic.
type contracts struct {
	pins  []string
	later shard.Contracts               // what else is there
	hold  chan struct{}                 // where not nil, pinning waits until it is closed
	unfit atomic.Pointer[ContractError] // answered in place of a contract
}

func (c *contracts) Pin(ctx context.Context, topic string) (shard.Contracts, error) {
	if c.hold != nil {
		select {
		case <-c.hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if err := c.unfit.Load(); err != nil {
		return nil, err
	}
	c.pins = append(c.pins, topic)
	return append(shard.Contracts{{Topic: topic, No: 1, Lineage: 1, PartitionCount: 12, Hash: shard.SHA256}}, c.later...), nil
}

// journal keeps what was logged since it was read last.
type journal struct {
	mu sync.Mutex
	b  []byte
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.b = append(j.b, p...)
	return len(p), nil
}

func (j *journal) take() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := string(j.b)
	j.b = nil
	return s
}
