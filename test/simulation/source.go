package simulation

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-relay/cdc-relay/checkpoint"
	"github.com/cdc-relay/cdc-relay/decode/shape"
	"github.com/cdc-relay/cdc-relay/internal/relay"
	"github.com/cdc-relay/cdc-relay/wal"
)

// origins connects a life to the scripted Postgres. Where a session starts is the decision of
// the real checkpoint.Decide.
type origins struct{ l *life }

// Open implements relay.Origins: the slot, then the row, then the server, with room for the world
// between any two of them.
func (o origins) Open(ctx context.Context) (relay.Source, relay.Origin, error) {
	pg := o.l.world.pg
	slot, row, err := o.look(ctx)
	if err != nil {
		return nil, relay.Origin{}, err
	}
	srv, err := read(ctx, o.l, "pg read the server", pg.server)
	if err != nil {
		return nil, relay.Origin{}, err
	}
	start, err := checkpoint.Decide(slotName, row, slot, srv)
	if err != nil {
		return nil, relay.Origin{}, err
	}
	from, err := o.act(ctx, start)
	if err != nil {
		return nil, relay.Origin{}, err
	}
	sh, err := shape.New(shape.Config{Table: "public.outbox", Topic: topicName})
	if err != nil {
		return nil, relay.Origin{}, err
	}
	return &source{l: o.l}, relay.Origin{Start: from, Lineages: wal.Lineages{{No: 1}}, Shape: sh}, nil
}

// look reads the slot, then the row, and both again where the slot of a live row isn't there.
func (o origins) look(ctx context.Context) (slot *checkpoint.Slot, row *checkpoint.Row, err error) {
	pg := o.l.world.pg
	for range 2 {
		if slot, err = read(ctx, o.l, "pg read the slot", pg.slotRow); err != nil {
			return nil, nil, err
		}
		if row, err = read(ctx, o.l, "pg read the row", o.l.readRow); err != nil {
			return nil, nil, err
		}
		if slot != nil || row == nil || row.State != checkpoint.Live {
			break
		}
	}
	return slot, row, nil
}

// readRow returns the row as it is now.
func (l *life) readRow() *checkpoint.Row {
	if l.world.pg.row == nil {
		return nil
	}
	row := *l.world.pg.row
	l.read = row.Stored
	return &row
}

// read is a question to Postgres that changes nothing.
func read[T any](ctx context.Context, l *life, key string, answer func() T) (T, error) {
	return call(ctx, l, key, []string{faultCut}, func(fault string) (v T, err error) {
		if err = l.world.pg.refuses(fault); err == nil {
			v = answer()
		}
		return v, err
	})
}

// act does what the decision asks for.
func (o origins) act(ctx context.Context, start checkpoint.Start) (wal.LSN, error) {
	pg := o.l.world.pg
	step := func(key string, do func() wal.LSN) (wal.LSN, error) {
		return call(ctx, o.l, key, []string{faultCut, faultCutAfter}, func(fault string) (wal.LSN, error) {
			if err := pg.refuses(fault); err != nil {
				return 0, err
			}
			l := do()
			if fault == faultCutAfter {
				return 0, errGone
			}
			return l, nil
		})
	}
	live := func(at wal.LSN) (wal.LSN, error) {
		return step("pg row goes live", func() wal.LSN {
			pg.row.State, pg.row.Stored = checkpoint.Live, at
			pg.w.rules.begin(at)
			return at
		})
	}
	switch start.Action {
	case checkpoint.Resume:
		return start.From, nil
	case checkpoint.GoLive:
		return live(start.From)
	case checkpoint.FirstStart, checkpoint.CreateSlot:
		if _, err := step("pg create row", func() wal.LSN {
			pg.row = &checkpoint.Row{Slot: slotName, State: checkpoint.Creating, SystemID: systemID, Timeline: 1, Publication: publication}
			return 0
		}); err != nil {
			return 0, err
		}
		at, err := step("pg create slot", func() wal.LSN {
			pg.slot = &slot{confirmed: pg.cur, saved: pg.cur}
			return pg.cur
		})
		if err != nil {
			return 0, err
		}
		return live(at)
	default:
		return 0, fmt.Errorf("start: unexpected action %s", start.Action)
	}
}

// errGone is a connection to Postgres that is no more.
var errGone = fmt.Errorf("read: %w", io.ErrUnexpectedEOF)

// refuses is the error of a statement or a connection that meets no server, or a fault.
func (pg *postgres) refuses(fault string) error {
	switch {
	case pg.down:
		return fmt.Errorf("connect: %w", syscall.ECONNREFUSED)
	case fault == faultCut:
		return errGone
	}
	return nil
}

// source is one replication connection.
type source struct {
	l   *life
	st  wal.Stored
	out chan<- *wal.Batch

	start   wal.LSN
	next    int  // transaction that is sent next
	row     int  // and row of it; -1: its Begin
	inside  bool // between Begin and Commit
	known   map[int]*table
	named   wal.LSN   // greatest position that was sent
	end     wal.LSN   // greatest position that was sent outside of a transaction
	told    wal.LSN   // greatest that a status said
	silent  time.Time // until when the relay doesn't learn that the connection is gone
	running atomic.Bool
	closed  atomic.Bool
}

// Start implements relay.Source.
func (s *source) Start(ctx context.Context, at wal.LSN) error {
	pg := s.l.world.pg
	_, err := call(ctx, s.l, fmt.Sprintf("pg start at %s", at), []string{faultCut}, func(fault string) (struct{}, error) {
		if err := pg.refuses(fault); err != nil {
			return struct{}{}, err
		}
		if pg.slot.stolen || time.Now().Before(pg.slot.held) || pg.source != nil {
			return struct{}{}, &wal.SlotActiveError{Slot: slotName, PID: 4711}
		}
		s.start, s.named, s.end, s.told = at, pg.cur, at, at
		s.next, s.row, s.known = pg.first(at), -1, map[int]*table{}
		pg.source = s
		s.l.sessions++
		s.l.troubled.Store(false)
		pg.w.rules.started(s)
		return struct{}{}, nil
	})
	return err
}

// Run implements relay.Source.
func (s *source) Run(ctx context.Context, st wal.Stored, out chan<- *wal.Batch) error {
	defer close(out)
	s.st, s.out = st, out
	s.running.Store(true)
	defer s.running.Store(false)
	for {
		o := &op{key: "pg stream", faults: []string{faultCut}, ready: s.ready}
		b, err := ask(ctx, s.l, o, s.send)
		if ctx.Err() != nil && b == nil {
			return s.leave()
		}
		if err != nil {
			return err
		}
		out <- b // there is room: ready looked
	}
}

// ready says whether something can be sent, or the connection has an end to tell.
func (s *source) ready() bool {
	pg := s.l.world.pg
	if pg.source != s {
		return !time.Now().Before(s.silent)
	}
	return len(s.out) < cap(s.out) && (s.next < len(pg.txns) || pg.cur > s.end)
}

// send makes the next batch. Only the scheduler runs it.
func (s *source) send(fault string) (*wal.Batch, error) {
	pg := s.l.world.pg
	if pg.source != s {
		return nil, errGone
	}
	if fault == faultCut {
		pg.detach()
		return nil, errGone
	}
	rng := pg.w.rng
	b := &wal.Batch{}
	for range 1 + rng.IntN(12) {
		f, ok := s.frame(rng)
		if !ok {
			break
		}
		b.Frames = append(b.Frames, f)
	}
	pg.w.trace.note("%d frames", len(b.Frames))
	return b, nil
}

// frame makes the next frame: a keepalive now and then, and where there is nothing else.
func (s *source) frame(rng *rand.Rand) (wal.Frame, bool) {
	pg := s.l.world.pg
	if s.next == len(pg.txns) {
		if pg.cur == s.end {
			return wal.Frame{}, false
		}
		s.end = pg.cur
		pg.w.rules.named(s.end)
		return s.frameAt(s.end, nil), true
	}
	if rng.IntN(16) == 0 {
		return s.keepalive(), true
	}
	t := pg.txns[s.next]
	switch {
	case !s.inside:
		s.inside, s.row = true, 0
		return s.frameAt(t.commit, beginMessage(t.commit, t.at, t.xid)), true
	case s.row == len(t.rows):
		s.inside = false
		s.next++
		s.end = max(s.end, t.end)
		pg.w.rules.named(t.end)
		return s.frameAt(t.end, commitMessage(t.commit, t.end, t.at)), true
	}
	r := &t.rows[s.row]
	if s.known[r.table.oid] != r.table {
		s.known[r.table.oid] = r.table
		return wal.Frame{Data: r.table.message()}, true
	}
	s.row++
	if r.event != nil {
		r.event.sent++
		pg.w.rules.sent(r.event)
	}
	return s.frameAt(t.commit, r.table.insert(r.values)), true
}

// keepalive names where the server is: between transactions what was sent, and inside of one
// anything up to the end of the WAL, which promises nothing.
func (s *source) keepalive() wal.Frame {
	pg := s.l.world.pg
	if s.inside {
		return s.frameAt(pg.cur, nil)
	}
	// Up to where the next commit record begins: nothing of what is published lies before it.
	s.end = max(s.end, pg.txns[s.next].commit)
	pg.w.rules.named(s.end)
	return s.frameAt(s.end, nil)
}

func (s *source) frameAt(l wal.LSN, data message) wal.Frame {
	s.named = max(s.named, l)
	return wal.Frame{End: l, At: time.Now(), Data: data}
}

// leave sends the last status and ends the stream.
func (s *source) leave() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	pg := s.l.world.pg
	_, err := call(ctx, s.l, "pg last status", []string{faultCut}, func(fault string) (struct{}, error) {
		if pg.source != s {
			return struct{}{}, errGone
		}
		defer pg.detach()
		if fault == faultCut {
			return struct{}{}, errGone
		}
		for _, l := range pg.statuses {
			pg.confirm(l)
		}
		pg.confirm(s.status())
		return struct{}{}, nil
	})
	return err
}

// status is what the relay tells Postgres, checked as wal does it.
func (s *source) status() wal.LSN {
	stored := s.st.Stored()
	if stored > s.named {
		s.l.world.rules.broken("a status confirms %s, and the server has named nothing beyond %s", stored, s.named)
	}
	s.told = max(s.told, stored)
	return s.told
}

// Received implements relay.Source.
func (s *source) Received() wal.LSN { return 0 }

// Close implements relay.Source.
func (s *source) Close() error {
	s.closed.Store(true)
	return nil
}

// adminShutdown is what statements meet that run while the server stops.
var adminShutdown = &pgconn.PgError{Severity: "FATAL", Code: "57P01", Message: "terminating connection due to administrator command"}
