package kafka

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/rs/zerolog"

	"github.com/cdc-relay/cdc-relay/sink"
)

// partition connects a lane with the goroutines around it.
type partition struct {
	sink  *Sink
	topic *topic
	num   int32

	taken atomic.Uint64 // records appended
	done  atomic.Uint64 // and settled, their report included

	mu     sync.Mutex
	lane   lane
	acts   []action
	route  *broker // the leader, by the newest metadata; nil: unknown
	listed *broker // whose ready list it stands in
	apart  bool    // the next batch wants a request of its own
	trail  trail
	last   string // what the last answer that wasn't an ack was
}

// append hands r over to the lane.
func (p *partition) append(r *sink.Record) {
	size := recordSize(r)
	f := flawOf(r, size)
	if p.topic.invalid {
		f = badTopic
	}
	p.taken.Add(1)
	p.mu.Lock()
	p.acts = p.lane.step(event{kind: evAppend, record: r, size: int32(min(size, 1<<30)), flaw: f}, p.acts[:0])
	p.perform()
	p.mu.Unlock()
}

// handle lets the lane make a step.
func (p *partition) handle(ev event) {
	p.mu.Lock()
	p.acts = p.lane.step(ev, p.acts[:0])
	p.perform()
	p.mu.Unlock()
}

// setRoute notes the leader.
func (p *partition) setRoute(b *broker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.route == b {
		return
	}
	p.route = b
	p.listed = nil
	if p.lane.state == ready {
		p.enlist()
	}
}

// waitsForRoute says that there is something to send and nobody to send it to.
func (p *partition) waitsForRoute() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.route == nil && p.lane.state == ready && !p.lane.closed
}

// enlist puts a ready lane into its leader's list.
func (p *partition) enlist() {
	if p.route == nil {
		p.sink.meta.poke()
		return
	}
	p.listed = p.route
	p.route.push(p)
}

// perform carries out what the lane wants. p.mu is held: everything here only changes state
// under mutexes that are leaves, or starts what runs elsewhere.
func (p *partition) perform() {
	s := p.sink
	for i := range p.acts {
		a := &p.acts[i]
		switch a.kind {
		case actReady:
			p.enlist()
		case actSend:
			// Whoever let the lane take looks for it.
		case actNeedID:
			s.ids.want(p)
		case actBackoff:
			p.backOff(a)
		case actReport:
			p.trail.add(a.offset, a.batch.records)
			s.reports.push(report{p: p, batch: a.batch})
		case actProbe:
			id, epoch, seq, leader := p.lane.id, p.lane.epoch, p.lane.seq, p.route
			s.spawn(func() { s.probe(p, leader, id, epoch, seq) })
		case actAsk:
			s.stats.rejected.Add(1)
			r, cause := a.batch.records[0], rejectedError(a.batch.records[0], a)
			p.log().Warn().Err(cause).Msg("record is refused; asking what to do")
			s.reports.push(report{p: p, refused: r, err: cause}) // behind the acks before it
		case actSettled:
			a.batch.free()
			p.settle(1)
		case actStop:
			p.topic.stop(p.num, topicError(p.topic.name, p.num, a.code, a.reason))
		case actHeal:
			p.topic.heal(p.num)
		case actHalt:
			p.halt(a)
		}
	}
	clear(p.acts)
}

func (p *partition) backOff(a *action) {
	s := p.sink
	s.stats.retries.Add(1)
	if a.refresh {
		s.meta.poke()
	}
	if n := a.attempt; n >= 5 && n&(n-1) == 0 {
		p.log().Warn().Int("attempt", n).Str("answer", p.last).Msg("a batch is not acknowledged yet; it is sent again")
	}
	d := backoff(a.attempt, s.cfg.MinBackoff, s.cfg.MaxBackoff)
	if a.slow {
		d = backoff(1, s.cfg.SlowBackoff, s.cfg.SlowBackoff)
	}
	s.clock.after(d, p)
}

func (p *partition) halt(a *action) {
	var err error
	switch a.halt {
	case haltRegressed:
		from, last := p.trail.lost(a.offset)
		cause := p.last
		if a.offset >= 0 {
			cause = fmt.Sprintf("it goes on at offset %d, and %d was acknowledged", a.offset, p.lane.end-1)
		}
		err = &RegressedError{Topic: p.topic.name, Partition: p.num, Cause: cause, Offset: a.offset, From: from, Last: last}
		p.sink.meta.halt(p.topic)
	case haltPops:
		err = &StuckError{p.topic.name, p.num, "a refused batch may be in the log and asking again doesn't settle it: " + p.last}
	default:
		err = &StuckError{p.topic.name, p.num, "the broker refuses every new producer state: " + p.last}
	}
	p.log().Error().Err(err).Msg("partition halted")
	p.topic.stop(p.num, err)
}

// settle counts n records as settled.
func (p *partition) settle(n int) {
	p.done.Add(uint64(n))
	p.sink.settled.Add(uint64(n))
	p.sink.flushed.tell()
}

func (p *partition) log() *zerolog.Logger {
	l := p.sink.cfg.Log.With().Str("topic", p.topic.name).Int32("partition", p.num).Logger()
	return &l
}
