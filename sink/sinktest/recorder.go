package sinktest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cdc-relay/cdc-relay/sink"
	"github.com/cdc-relay/cdc-relay/wal"
)

// retryPause is how long the Recorder waits after a Retry before it asks again.
const retryPause = time.Millisecond

// Recorder is a sink in memory. It publishes what it is given, per partition in order, and
// reports it from goroutines of its own, as a real sink does. A test can hold it back, make it
// refuse records and fail topics. All methods may be called from any goroutine.
type Recorder struct {
	h      sink.Handler
	ctx    context.Context // of Reject
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	cond    *sync.Cond // when any of the following changes
	lanes   map[laneID]*lane
	refused map[wal.Position]error
	failed  map[string]error
	hold    bool // nothing is published
	acks    bool // what is published is not reported
	stalled bool // Produce blocks
	closed  bool
	counts  Counts
}

// Counts are totals of a Recorder.
type Counts struct {
	Taken     int // by Produce
	Published int // in a partition's log; not more than once each
	Acked     int // reported as acked
	Settled   int // by a verdict
	Rejects   int // calls of Handler.Reject
}

// Open is what is taken and not settled.
func (c Counts) Open() int { return c.Taken - c.Acked - c.Settled }

type laneID struct {
	topic     string
	partition int32
}

// lane is one partition. Its records are queue (taken), then log (published); those between
// acked and the log's end are published and not reported.
type lane struct {
	queue []*sink.Record
	log   []*sink.Record
	acked int
	allow int // may pass although the recorder is on hold
}

var _ sink.Sink = (*Recorder)(nil)

// NewRecorder returns a Recorder that reports to h.
func NewRecorder(h sink.Handler) *Recorder {
	r := &Recorder{
		h:       h,
		lanes:   make(map[laneID]*lane),
		refused: make(map[wal.Position]error),
		failed:  make(map[string]error),
	}
	r.cond = sync.NewCond(&r.mu)
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// Produce implements sink.Sink.
func (r *Recorder) Produce(ctx context.Context, rec *sink.Record) error {
	if rec.Partition < 0 {
		return fmt.Errorf("record event %q: partition %d can't exist", rec.DedupeKey, rec.Partition)
	}
	stop := r.wakeWith(ctx)
	defer stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.stalled && !r.closed && ctx.Err() == nil {
		r.cond.Wait()
	}
	if r.closed {
		return fmt.Errorf("record event %q: %w", rec.DedupeKey, sink.ErrClosed)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("record event %q: %w", rec.DedupeKey, err)
	}
	id := laneID{rec.Topic, rec.Partition}
	l := r.lane(id)
	l.queue = append(l.queue, rec)
	r.counts.Taken++
	r.cond.Broadcast()
	return nil
}

// lane returns a partition's lane, which a goroutine serves. The caller holds mu.
func (r *Recorder) lane(id laneID) *lane {
	l := r.lanes[id]
	if l == nil {
		l = &lane{}
		r.lanes[id] = l
		if !r.closed {
			r.wg.Go(func() { r.serve(id, l) })
		}
	}
	return l
}

// wakeWith makes waiters look at ctx when it ends.
func (r *Recorder) wakeWith(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.cond.Broadcast()
	})
}

// serve publishes and reports one partition's records until the recorder closes.
func (r *Recorder) serve(id laneID, l *lane) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for !r.closed {
		switch {
		case l.acked < len(l.log) && !r.acks:
			rs := slices.Clone(l.log[l.acked:]) // the handler may keep nothing of it
			l.acked = len(l.log)
			r.unlocked(func() { r.h.Acked(rs) })
			r.counts.Acked += len(rs)
			r.cond.Broadcast()
		case len(l.queue) == 0, r.hold && l.allow == 0, r.failed[id.topic] != nil:
			r.cond.Wait()
		case r.refused[l.queue[0].Position] == nil:
			r.publish(l)
		case l.acked < len(l.log): // those before it are settled first
			r.cond.Wait()
		default:
			r.reject(l)
		}
	}
}

// publish moves records into the log up to one that is refused. The caller holds mu.
func (r *Recorder) publish(l *lane) {
	n := 0
	for n < len(l.queue) && r.refused[l.queue[n].Position] == nil && (!r.hold || n < l.allow) {
		n++
	}
	l.log = append(l.log, l.queue[:n]...)
	l.queue = l.queue[n:]
	l.allow = max(0, l.allow-n)
	r.counts.Published += n
	r.cond.Broadcast()
}

// reject asks for the verdict on the first record. The caller holds mu.
func (r *Recorder) reject(l *lane) {
	rec := l.queue[0]
	cause := r.refused[rec.Position]
	r.counts.Rejects++
	r.cond.Broadcast()
	settled := false
	r.unlocked(func() {
		v, err := r.h.Reject(r.ctx, rec, cause)
		settled = err == nil && v == sink.Settled
		if !settled {
			select {
			case <-time.After(retryPause):
			case <-r.ctx.Done():
			}
		}
	})
	if settled {
		l.queue = l.queue[1:]
		l.allow = max(0, l.allow-1)
		r.counts.Settled++
		r.cond.Broadcast()
	}
}

// unlocked runs f without mu.
func (r *Recorder) unlocked(f func()) {
	r.mu.Unlock()
	defer r.mu.Lock()
	f()
}

// Flush implements sink.Sink.
func (r *Recorder) Flush(ctx context.Context) error {
	defer r.wakeWith(ctx)()
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.counts.Open() > 0 {
		if r.closed {
			return fmt.Errorf("flush %d events: %w", r.counts.Open(), sink.ErrClosed)
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("flush %d events: %w", r.counts.Open(), err)
		}
		r.cond.Wait()
	}
	return nil
}

// Close implements sink.Sink.
func (r *Recorder) Close(context.Context) (int, error) {
	r.mu.Lock()
	r.closed = true
	r.cond.Broadcast()
	r.mu.Unlock()
	r.cancel()
	r.wg.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts.Open(), nil
}
