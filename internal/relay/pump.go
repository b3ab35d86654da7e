package relay

import (
	"context"
	"errors"
	"fmt"

	"github.com/cdc-relay/cdc-relay/checkpoint"
	"github.com/cdc-relay/cdc-relay/decode"
	"github.com/cdc-relay/cdc-relay/decode/shape"
	"github.com/cdc-relay/cdc-relay/shard"
	"github.com/cdc-relay/cdc-relay/sink"
	"github.com/cdc-relay/cdc-relay/wal"
)

// pump takes a session's frames to the sink: decode, shape, shard, count, produce, in this order
// and on one goroutine. It never steps over anything: what it can't judge it holds on to.
type pump struct {
	cfg      *Config
	sink     sink.Sink
	gate     *gate
	tracker  *checkpoint.Tracker
	lineages wal.Lineages
	shape    *shape.Shape
	stop     <-chan struct{} // closed when the relay was asked to stop

	dec       *decode.Decoder
	contracts shard.Contracts // of the topics seen so far
	pinned    map[string]bool
	terms     shard.Contract // in force at the open transaction's commit
	open      bool           // between Begin and Commit
	events    int            // of the open transaction
	bytes     int64
	handed    wal.Position // of the newest event that the sink was given
}

func newPump(cfg *Config, s sink.Sink, g *gate, t *checkpoint.Tracker, o Origin, stop <-chan struct{}) *pump {
	return &pump{cfg: cfg, sink: s, gate: g, tracker: t, lineages: o.Lineages, shape: o.Shape, stop: stop, dec: decode.New(), pinned: map[string]bool{}}
}

// run pumps until in is closed, ctx ends, something is wrong, or stop is closed and no transaction
// is open. It returns nil in the first and the last case.
func (p *pump) run(ctx context.Context, in <-chan *wal.Batch) error {
	for {
		mayStop := p.stop
		if p.open {
			mayStop = nil
		} else if closed(p.stop) {
			return nil // and takes no batch more, however many wait
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-mayStop:
			return nil
		case b, ok := <-in:
			if !ok {
				return nil
			}
			err := p.batch(ctx, b)
			b.Release()
			if err != nil {
				return err
			}
		}
	}
}

// batch takes the frames of one batch, up to the first at which a stop may be made.
func (p *pump) batch(ctx context.Context, b *wal.Batch) error {
	for i := range b.Frames {
		if !p.open && closed(p.stop) {
			return nil
		}
		if err := p.frame(ctx, b.Frames[i]); err != nil {
			return err
		}
	}
	return nil
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (p *pump) frame(ctx context.Context, f wal.Frame) error {
	c, err := p.dec.Decode(f)
	if err != nil {
		return p.undecodable(ctx, err)
	}
	switch c.Kind {
	case decode.Begin:
		return p.begin(c)
	case decode.Row:
		return p.row(ctx, &c)
	case decode.Message:
		return p.message(ctx, &c)
	case decode.Commit:
		p.commit(c)
	case decode.Idle:
		p.tracker.Idle(c.End)
	case decode.Ignored:
		p.ignored(c.Op)
	case decode.None:
	}
	return nil
}

// undecodable halts: the frame can't be stepped over, and reading it again would only publish again
// what came before it in its transaction.
func (p *pump) undecodable(ctx context.Context, err error) error {
	var pe *decode.ProtocolError
	if !errors.As(err, &pe) {
		return err
	}
	pos := wal.Position{Lineage: p.lineages.At(pe.Commit), Commit: pe.Commit}
	return p.halt(ctx, pos, err, func() error { return err })
}

func (p *pump) begin(c decode.Change) error {
	if p.lineages.At(c.Commit) == 0 {
		return fmt.Errorf("place the transaction at %s: no lineage of this server covers it: table lineage is incomplete", c.Commit)
	}
	p.open, p.events, p.bytes, p.terms = true, 0, 0, shard.Contract{}
	p.tracker.Begin(c.CommitTime)
	return nil
}

func (p *pump) commit(c decode.Change) {
	p.tracker.Seal(c.End)
	p.open = false
	if p.events > 0 && p.cfg.Events.Transaction != nil {
		p.cfg.Events.Transaction(p.events, p.bytes)
	}
}

func (p *pump) ignored(op byte) {
	if p.cfg.Events.Ignored != nil {
		p.cfg.Events.Ignored(op)
	}
}

// row makes an event of an insert into the outbox, and steps over one into another table.
func (p *pump) row(ctx context.Context, c *decode.Change) error {
	pos := wal.Position{Lineage: p.lineages.At(c.Commit), Commit: c.Commit, Seq: c.Seq}
	if c.Row.Rel.Class == decode.Unknown {
		if err := p.classify(ctx, pos, c.Row.Rel); err != nil {
			return err
		}
	}
	if c.Row.Rel.Class != decode.Outbox {
		return nil
	}
	r := &sink.Record{}
	if err := p.event(ctx, pos, c, r); err != nil {
		return err
	}
	if err := p.contract(ctx, r); err != nil {
		return err
	}
	r.Partition = shard.Partition(p.terms.Hash, r.ShardKey, p.terms.PartitionCount)
	return p.produce(ctx, r)
}

// event shapes the row. A row that can't be an event halts: nothing may pass it, and to end would only
// publish what comes before it in its transaction again at each start.
func (p *pump) event(ctx context.Context, pos wal.Position, c *decode.Change, r *sink.Record) error {
	var err error
	if r.Event, err = p.shape.Event(c.Row, pos, c.CommitTime); err == nil {
		return nil
	}
	return p.halt(ctx, pos, err, func() error {
		var again error
		r.Event, again = p.shape.Event(c.Row, pos, c.CommitTime)
		return again
	})
}

// message: of our own only transactional ones are events, and none can be published yet.
func (p *pump) message(ctx context.Context, c *decode.Change) error {
	if !c.Msg.Own {
		return nil
	}
	if !c.Msg.Transactional {
		p.ignored('M')
		p.cfg.Log.Warn().Str("prefix", c.Msg.Prefix).Stringer("lsn", c.Msg.LSN).
			Msg("a message that isn't transactional is no event; it is stepped over")
		return nil
	}
	pos := wal.Position{Lineage: p.lineages.At(c.Commit), Commit: c.Commit, Seq: c.Seq}
	err := &shape.RejectError{Table: "logical message " + c.Msg.Prefix, Cause: "messages are not supported as events yet", Hint: "insert into the outbox table"}
	return p.halt(ctx, pos, err, func() error { return err })
}

// halt holds everything back until try succeeds or the session ends.
func (p *pump) halt(ctx context.Context, pos wal.Position, cause error, try func() error) error {
	if p.cfg.Events.Rejected != nil {
		p.cfg.Events.Rejected("halt")
	}
	return p.gate.shutAndTry(ctx, p.stop, pos, cause, try)
}

// classify asks what a relation is before an insert into it is published or stepped over. While the
// answer can't be had, the pump waits: stepping over an outbox would lose its events.
func (p *pump) classify(ctx context.Context, pos wal.Position, rel *decode.Relation) error {
	what := fmt.Sprintf("look up relation %s.%s (oid %d)", rel.Schema, rel.Name, rel.ID)
	ask := func() error {
		class, err := retry(ctx, p.cfg.Slot, what, p.warn, func() (decode.Class, error) {
			return p.cfg.Catalog.Classify(ctx, rel.ID, rel.Schema, rel.Name)
		})
		if err == nil && class == decode.Unknown {
			err = &goneError{rel: *rel}
		}
		rel.Class = class
		return err
	}
	err := ask()
	var gone *goneError
	if errors.As(err, &gone) {
		return p.halt(ctx, pos, err, ask)
	}
	return err
}

func (p *pump) warn(err error) { p.cfg.Log.Warn().Err(err).Msg("trying again") }

// contract sets the terms that are in force for the record's topic at its position. The first
// publication to a topic pins them durably, before its first record is produced.
func (p *pump) contract(ctx context.Context, r *sink.Record) error {
	if p.terms.Topic == r.Topic {
		return nil
	}
	if !p.pinned[r.Topic] {
		if err := p.pin(ctx, r); err != nil {
			return err
		}
	}
	terms, ok := p.contracts.At(r.Topic, r.Position.Lineage, r.Position.Commit)
	if !ok {
		return fmt.Errorf("find the contract of topic %q at %s: none is in force there", r.Topic, r.Position)
	}
	p.terms = terms
	return nil
}

// pin asks for the contracts of the record's topic. A topic or a contract that doesn't fit ends a
// relay at its start; one that is at work holds everything back instead, since it may be the metadata
// of a broker that lags, or an operator who is about to mend it.
func (p *pump) pin(ctx context.Context, r *sink.Record) error {
	ask := func() error {
		cs, err := retry(ctx, p.cfg.Slot, "pin the contract of topic "+r.Topic, p.warn, func() (shard.Contracts, error) {
			return p.cfg.Contracts.Pin(ctx, r.Topic)
		})
		if err == nil {
			p.contracts = append(p.contracts, cs...)
			p.pinned[r.Topic] = true
		}
		return err
	}
	err := ask()
	var unfit *ContractError
	if errors.As(err, &unfit) {
		return p.halt(ctx, r.Position, err, ask)
	}
	return err
}

// produce counts the record and hands it over, once there is room and nothing halts.
func (p *pump) produce(ctx context.Context, r *sink.Record) error {
	w := weight(r)
	for {
		if p.gate.isShut.Load() { // it may have been shut while this waited for room
			if err := p.gate.wait(ctx, p.stop); err != nil {
				return err
			}
		}
		ticket, ok := p.tracker.Add(w)
		if ok {
			r.Ticket = ticket
			break
		}
		if err := p.tracker.Err(); err != nil {
			return err
		}
		select {
		case <-p.tracker.Room():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	p.events++
	p.bytes += int64(r.Bytes())
	p.handed = r.Position
	return p.sink.Produce(ctx, r)
}
