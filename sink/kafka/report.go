package kafka

import (
	"sync"

	"github.com/cdc-relay/cdc-relay/sink"
)

// reporter hands acknowledgements and topic states to the caller, in the order in which
// they came, from one goroutine.
type reporter struct {
	h    sink.Handler
	wake chan struct{} // one, buffered

	mu    sync.Mutex
	queue []report
	ended bool
}

// report is acknowledged records, whose batch is freed behind them; a record that is refused
// for a cause; or a topic's state.
type report struct {
	p     *partition
	batch *batch

	refused *sink.Record
	err     error

	topic string
}

func newReporter(h sink.Handler) *reporter {
	return &reporter{h: h, wake: make(chan struct{}, 1)}
}

func (r *reporter) push(x report) {
	r.mu.Lock()
	r.queue = append(r.queue, x)
	r.mu.Unlock()
	signal(r.wake)
}

// end lets run return once everything is reported.
func (r *reporter) end() {
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
	signal(r.wake)
}

func (r *reporter) run() {
	var work []report
	for {
		r.mu.Lock()
		work, r.queue = r.queue, work[:0]
		ended := r.ended
		r.mu.Unlock()
		for i := range work {
			r.tell(work[i])
		}
		clear(work)
		if len(work) > 0 {
			continue
		}
		if ended {
			return
		}
		<-r.wake
	}
}

func (r *reporter) tell(x report) {
	switch {
	case x.refused != nil:
		x.p.sink.spawn(func() { x.p.judge(x.refused, x.err) })
		return
	case x.batch == nil:
		r.h.Topic(x.topic, x.err)
		return
	}
	n := len(x.batch.records)
	r.h.Acked(x.batch.records)
	x.batch.free()
	x.p.settle(n)
	x.p.sink.stats.acked.Add(uint64(n))
}

// judge asks for the verdict on a record that is refused, on a goroutine of its own: the
// caller may take as long as it likes, and other partitions may ask meanwhile.
func (p *partition) judge(r *sink.Record, cause error) {
	ctx := p.sink.rejectCtx
	v, err := p.sink.h.Reject(ctx, r, cause)
	if err != nil && ctx.Err() == nil {
		p.log().Error().Err(err).Str("event", r.DedupeKey).Msg("verdict on a refused record failed; it is asked again")
	}
	p.handle(event{kind: evVerdict, verdict: v, failed: err != nil})
}
