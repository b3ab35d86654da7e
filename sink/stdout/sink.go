package stdout

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/cdc-relay/cdc-relay/sink"
)

// chunk is how many bytes are gathered before a write: that of a pipe's buffer on Linux
// (pipe(7)), so a large backlog costs few system calls and no more memory than that.
const chunk = 64 << 10

// Sink writes records as lines of JSON. See the package's documentation for what they hold
// and what an ack means.
type Sink struct {
	w io.Writer
	h sink.Handler

	// report is held while the handler is called; whoever takes both takes it before mu.
	// Close takes it to be sure that nothing is reported after it has counted.
	report sync.Mutex

	mu      sync.Mutex
	queue   []*sink.Record // taken, not yet with the writer
	open    int            // taken and not settled
	topics  map[string]bool
	err     error // the write error; final
	closing bool
	gone    bool          // Close has counted; nothing is reported any more
	left    int           // what it counted
	wake    chan struct{} // to the writer, one buffered; never closed
	change  chan struct{} // closed and replaced when open, err or closing changes
	done    chan struct{} // closed by the writer when it returns
}

var _ sink.Sink = (*Sink)(nil)

// New returns a sink that writes to w and reports to h. Only its own goroutine writes to w,
// whole lines at a time; w is not closed. Close ends the goroutine.
func New(w io.Writer, h sink.Handler) *Sink {
	s := &Sink{
		w: w, h: h,
		topics: make(map[string]bool),
		wake:   make(chan struct{}, 1),
		change: make(chan struct{}),
		done:   make(chan struct{}),
	}
	go s.write()
	return s
}

// Produce implements sink.Sink. It never blocks.
func (s *Sink) Produce(ctx context.Context, r *sink.Record) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("write event %q: %w", r.DedupeKey, err)
	}
	if r.Partition < 0 {
		return fmt.Errorf("write event %q: partition %d of topic %q can't exist", r.DedupeKey, r.Partition, r.Topic)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closing:
		return fmt.Errorf("write event %q: %w", r.DedupeKey, sink.ErrClosed)
	case s.err != nil:
		return fmt.Errorf("write event %q: %w", r.DedupeKey, s.err)
	}
	s.queue = append(s.queue, r)
	s.open++
	s.topics[r.Topic] = true
	select {
	case s.wake <- struct{}{}:
	default: // it is awake already
	}
	return nil
}

// Flush implements sink.Sink.
func (s *Sink) Flush(ctx context.Context) error {
	for {
		s.mu.Lock()
		open, err, closing, change := s.open, s.err, s.closing, s.change
		s.mu.Unlock()
		switch {
		case open == 0:
			return nil
		case err != nil:
			return fmt.Errorf("flush %d events: %w", open, err)
		case closing:
			return fmt.Errorf("flush %d events: %w", open, sink.ErrClosed)
		}
		select {
		case <-change:
		case <-ctx.Done():
			return fmt.Errorf("flush %d events: %w", open, ctx.Err())
		}
	}
}

// Close implements sink.Sink. A write that the reader of a pipe holds up can't be taken back:
// when ctx ends first, its records are counted as unsettled, and the writer's goroutine stays
// until the write returns.
func (s *Sink) Close(ctx context.Context) (int, error) {
	s.mu.Lock()
	if !s.closing {
		s.closing = true
		s.changed()
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
	s.mu.Unlock()

	select {
	case <-s.done:
	case <-ctx.Done():
	}
	s.report.Lock()
	defer s.report.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.gone {
		s.gone = true
		s.left = s.open
	}
	return s.left, s.err
}

// changed wakes every Flush. The caller holds mu.
func (s *Sink) changed() {
	close(s.change)
	s.change = make(chan struct{})
}

// write is the writer's goroutine.
func (s *Sink) write() {
	defer close(s.done)
	var buf []byte
	for range s.wake {
		rs, closing := s.take()
		if closing {
			return
		}
		for len(rs) > 0 {
			buf = buf[:0]
			n := 0
			for n < len(rs) && len(buf) < chunk {
				buf = appendLine(buf, rs[n])
				n++
			}
			_, err := s.w.Write(buf)
			if !s.settle(rs[:n], err) {
				return
			}
			rs = rs[n:]
		}
	}
}

// take returns what is queued, and whether the sink is closing.
func (s *Sink) take() ([]*sink.Record, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rs := s.queue
	s.queue = nil
	return rs, s.closing
}

// settle reports what became of the records of one write. It returns false when the writer
// must end.
func (s *Sink) settle(rs []*sink.Record, err error) bool {
	s.report.Lock()
	defer s.report.Unlock()
	s.mu.Lock()
	gone := s.gone
	s.mu.Unlock()
	if gone {
		return false
	}
	if err != nil {
		s.fail(fmt.Errorf("write to the standard output: %w", err))
		return false
	}
	// Reported before it is counted, so that a Flush returns after the reports.
	s.h.Acked(rs)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open -= len(rs)
	if s.open == 0 {
		s.changed()
	}
	return !s.closing
}

// fail makes a write error final and reports it for every topic. The caller holds report.
func (s *Sink) fail(err error) {
	s.mu.Lock()
	s.err = err
	topics := s.topics
	s.changed()
	s.mu.Unlock()
	for t := range topics { // no Produce adds to it any more
		s.h.Topic(t, err)
	}
}
