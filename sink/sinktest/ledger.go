package sinktest

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/cdc-relay/cdc-relay/sink"
)

// Ledger is a handler that books what a sink takes and reports, and finds what breaks the
// contract: a record reported twice, out of order, after Close, or without having been taken;
// two reports about one partition at the same time. Records must be produced and the sink
// closed through it.
type Ledger struct {
	// Verdict answers Reject. Nil: a rejection is a fault.
	Verdict func(ctx context.Context, r *sink.Record, cause error) (sink.Verdict, error)
	// Reporting is called in the middle of each Acked. Nil: nothing is.
	Reporting func()

	mu      sync.Mutex
	change  chan struct{} // closed and replaced at each report
	entries map[*sink.Record]*entry
	lanes   map[laneID]*account
	topics  []TopicReport
	faults  []string
	rejects int
	settled int
	calls   int // of Produce that have not returned
	closed  bool
}

// TopicReport is one call of Handler.Topic.
type TopicReport struct {
	Topic string
	Err   error
}

type entry struct {
	lane *account
	done bool
}

// account is the book of one partition.
type account struct {
	id    laneID
	taken []*sink.Record
	next  int // of taken: the first that is not settled
	acked []*sink.Record
	busy  bool // a report about it is being made
}

var _ sink.Handler = (*Ledger)(nil)

// NewLedger returns an empty ledger.
func NewLedger() *Ledger {
	return &Ledger{
		change:  make(chan struct{}),
		entries: make(map[*sink.Record]*entry),
		lanes:   make(map[laneID]*account),
	}
}

// Produce hands a record to s and books it when it is taken.
func (l *Ledger) Produce(ctx context.Context, s sink.Sink, r *sink.Record) error {
	id := laneID{r.Topic, r.Partition}
	l.mu.Lock()
	a := l.lanes[id]
	if a == nil {
		a = &account{id: id}
		l.lanes[id] = a
	}
	// Booked before, since the report may come before Produce returns.
	e := &entry{lane: a}
	l.entries[r] = e
	a.taken = append(a.taken, r)
	l.calls++
	l.mu.Unlock()

	err := s.Produce(ctx, r)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls--
	if l.closed {
		l.wake() // Close may wait for this call
	}
	if err != nil {
		if e.done {
			l.fault("%s was reported, but Produce said that it was not taken: %v", name(r), err)
		}
		delete(l.entries, r)
		a.taken = a.taken[:len(a.taken)-1]
	}
	return err
}

// Close closes s. From then on every report is a fault, and so is a wrong count.
func (l *Ledger) Close(ctx context.Context, s sink.Sink) (int, error) {
	left, err := s.Close(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for l.calls > 0 { // a Produce that Close met is refused, or counted
		change := l.change
		l.mu.Unlock()
		<-change
		l.mu.Lock()
	}
	if open := l.open(); left != open {
		l.fault("Close counted %d unsettled records, %d were", left, open)
	}
	return left, err
}

// Acked implements sink.Handler.
func (l *Ledger) Acked(rs []*sink.Record) {
	l.enter(rs)
	if l.Reporting != nil {
		l.Reporting()
	}
	runtime.Gosched() // so that a second report at the same time has its chance
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range rs {
		if a := l.settle(r, "acked"); a != nil {
			a.acked = append(a.acked, r)
			a.busy = false
		}
	}
	l.wake()
}

// Reject implements sink.Handler.
func (l *Ledger) Reject(ctx context.Context, r *sink.Record, cause error) (sink.Verdict, error) {
	l.enter([]*sink.Record{r})
	l.mu.Lock()
	l.rejects++
	a := l.entries[r]
	switch {
	case cause == nil:
		l.fault("%s was rejected without a cause", name(r))
	case l.Verdict == nil:
		l.fault("%s was rejected: %v", name(r), cause)
	case a != nil && a.lane.next < len(a.lane.taken) && a.lane.taken[a.lane.next] != r:
		l.fault("%s was rejected while %s before it is not settled", name(r), name(a.lane.taken[a.lane.next]))
	}
	l.wake()
	l.mu.Unlock()

	if l.Verdict == nil {
		<-ctx.Done()
		l.leave(r)
		return sink.Retry, ctx.Err()
	}
	v, err := l.Verdict(ctx, r, cause)
	l.leave(r)
	if err == nil && v == sink.Settled {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.settle(r, "settled by a verdict")
		l.wake()
	}
	return v, err
}

// Topic implements sink.Handler.
func (l *Ledger) Topic(topic string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		l.fault("topic %q was reported after Close: %v", topic, err)
	}
	l.topics = append(l.topics, TopicReport{topic, err})
	l.wake()
}

// enter marks the partitions of a report as busy.
func (l *Ledger) enter(rs []*sink.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	mine := make(map[*account]bool, 1)
	for _, r := range rs {
		e := l.entries[r]
		if e == nil {
			l.fault("%s was reported and never taken", name(r))
			continue
		}
		if e.lane.busy && !mine[e.lane] {
			l.fault("%s was reported while another report about its partition was being made", name(r))
		}
		e.lane.busy, mine[e.lane] = true, true
	}
}

func (l *Ledger) leave(r *sink.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.entries[r]; e != nil {
		e.lane.busy = false
	}
}

// settle books a record as settled. The caller holds mu.
func (l *Ledger) settle(r *sink.Record, how string) *account {
	e := l.entries[r]
	if e == nil {
		return nil // reported already
	}
	a := e.lane
	switch {
	case l.closed:
		l.fault("%s was %s after Close", name(r), how)
	case e.done:
		l.fault("%s was %s and had been settled before", name(r), how)
		return a
	case a.taken[a.next] != r:
		l.fault("%s was %s before %s", name(r), how, name(a.taken[a.next]))
	}
	e.done = true
	for a.next < len(a.taken) && l.entries[a.taken[a.next]].done {
		a.next++
	}
	l.settled++
	return a
}

func (l *Ledger) open() int { return len(l.entries) - l.settled }

// fault books a breach of the contract. The caller holds mu.
func (l *Ledger) fault(format string, args ...any) {
	if len(l.faults) < 20 {
		l.faults = append(l.faults, fmt.Sprintf(format, args...))
	}
}

// wake wakes every Wait. The caller holds mu.
func (l *Ledger) wake() {
	close(l.change)
	l.change = make(chan struct{})
}

// Open returns how many records are taken and not settled.
func (l *Ledger) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open()
}

// Rejects returns how often Reject was called.
func (l *Ledger) Rejects() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rejects
}

// Acks returns the records of a partition in the order in which they were acked.
func (l *Ledger) Acks(topic string, partition int32) []*sink.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.lanes[laneID{topic, partition}]; a != nil {
		return append([]*sink.Record(nil), a.acked...)
	}
	return nil
}

// Topics returns the reports about topics so far.
func (l *Ledger) Topics() []TopicReport {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]TopicReport(nil), l.topics...)
}

// Wait returns when ok is true, which it asks after every report, and fails the test when ctx
// ends first.
func (l *Ledger) Wait(ctx context.Context, t *testing.T, what string, ok func() bool) {
	t.Helper()
	for {
		l.mu.Lock()
		change := l.change
		l.mu.Unlock()
		if ok() {
			return
		}
		select {
		case <-change:
		case <-ctx.Done():
			l.Check(t)
			t.Fatalf("%s did not happen in time: %d records are open", what, l.Open())
		}
	}
}

// Check fails the test with every breach of the contract so far.
func (l *Ledger) Check(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.faults {
		t.Error(f)
	}
}

func name(r *sink.Record) string {
	return fmt.Sprintf("%s of %s/%d", r.DedupeKey, r.Topic, r.Partition)
}
