package kafka

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/cdc-relay/cdc-relay/sink"
)

// slowHandler is a recorder whose first report takes until it is let go.
type slowHandler struct {
	*recorder
	calls atomic.Int32
	first chan struct{} // closed when the first report is being made
	let   func()        // returns when it may go on
	later func()        // called in each of the others
}

func (h *slowHandler) Acked(rs []*sink.Record) {
	if h.calls.Add(1) == 1 {
		close(h.first)
		h.let()
	} else if h.later != nil {
		h.later()
	}
	h.recorder.Acked(rs)
}

// TestReportsOneAfterTheOther: while one ack is reported, the ones behind it wait, since whoever
// takes two at once can't tell which came first.
func TestReportsOneAfterTheOther(t *testing.T) {
	ctx := testContext(t)
	c := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"))
	over := make(chan struct{})
	h := &slowHandler{recorder: newRecorder(t), first: make(chan struct{})}
	h.later = func() {
		select {
		case <-over:
		default:
			t.Error("a later ack is reported while the first report isn't over")
		}
	}
	var s *Sink
	h.let = func() {
		poll(t, ctx, "the second ack", func() bool {
			p := s.topics["orders"].parts[0]
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.lane.end == 2
		})
		pause(ctx, 50*time.Millisecond) // time for what must not happen
		close(over)
	}
	s = open(t, testConfig(t, c), h)
	produce(t, s, record("orders", 0, 0))
	<-h.first
	produce(t, s, record("orders", 0, 1))
	flush(t, ctx, s)
	if h.calls.Load() != 2 {
		t.Errorf("%d reports, want 2", h.calls.Load())
	}
}

// TestSlowReportHoldsNobodyUp: while a report is made no lock is held that Produce or the senders
// need.
func TestSlowReportHoldsNobodyUp(t *testing.T) {
	ctx := testContext(t)
	c := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(2, "orders"))
	went := make(chan struct{})
	h := &slowHandler{recorder: newRecorder(t), first: make(chan struct{})}
	h.let = func() {
		select {
		case <-went:
		case <-time.After(2 * time.Second): // what is right takes milliseconds
			t.Error("nothing is taken or published while a report is made")
		}
	}
	s := open(t, testConfig(t, c), h)
	produce(t, s, record("orders", 0, 0))
	<-h.first
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 1; i < 21; i++ {
			if err := s.Produce(ctx, record("orders", int32(i%2), i)); err != nil {
				t.Error(err)
			}
		}
		cl := client(t, c.ListenAddrs())
		for ends := map[int32]int64(nil); ends[0]+ends[1] < 21; {
			var err error
			if ends, err = endOffsets(ctx, cl, "orders"); err != nil {
				t.Error(err)
				return
			}
			pause(ctx, time.Millisecond)
		}
		close(went)
	}()
	flush(t, ctx, s)
	<-done
	flush(t, ctx, s)
	checkLog(t, ctx, c.ListenAddrs(), "orders", 21, nil)
}

// TestVerdictHoldsNoReportsUp: a verdict may take as long as it likes, and what other partitions
// publish meanwhile is reported.
func TestVerdictHoldsNoReportsUp(t *testing.T) {
	ctx := testContext(t)
	c := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(2, "orders"))
	h := newRecorder(t)
	h.verdict = func(context.Context, *sink.Record, error) (sink.Verdict, error) {
		limit := time.After(2 * time.Second) // what is right takes milliseconds
		for {
			wait := h.changed.wait()
			h.mu.Lock()
			n := h.acked
			h.mu.Unlock()
			if n >= 50 {
				return sink.Settled, nil
			}
			select {
			case <-wait:
			case <-limit:
				t.Errorf("%d records of the other partition are reported while a verdict is open, want 50", n)
				return sink.Settled, nil
			}
		}
	}
	s := open(t, testConfig(t, c), h)
	bad := record("orders", 0, 0)
	bad.TimestampMs = -1
	produce(t, s, bad, record("orders", 0, 1))
	for i := 2; i < 52; i++ {
		produce(t, s, record("orders", 1, i))
	}
	flush(t, ctx, s)
	if h.acked != 51 || !h.settled[0] {
		t.Errorf("%d acks, settled %v", h.acked, h.settled)
	}
}

// TestFlushWaitsForWhatIsRefused: a record whose verdict is open is not settled.
func TestFlushWaitsForWhatIsRefused(t *testing.T) {
	ctx := testContext(t)
	c := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"))
	h := newRecorder(t)
	verdict := make(chan struct{})
	h.verdict = func(context.Context, *sink.Record, error) (sink.Verdict, error) {
		<-verdict
		return sink.Settled, nil
	}
	s := open(t, testConfig(t, c), h)
	bad := record("orders", 0, 1)
	bad.TimestampMs = -1
	produce(t, s, record("orders", 0, 0), bad)
	h.await(ctx, "the question", func() bool { return len(h.asked) == 1 })
	flushed := make(chan error, 1)
	go func() { flushed <- s.Flush(ctx) }()
	select {
	case err := <-flushed:
		t.Errorf("flush returned %v with a verdict open", err)
		flushed <- err
	case <-time.After(50 * time.Millisecond):
	}
	close(verdict)
	if err := <-flushed; err != nil {
		t.Error(err)
	}
	if left, _ := s.Close(ctx); left != 0 {
		t.Errorf("%d unsettled after the flush, want 0", left)
	}
}

// TestCloseWaitsForReports: what is acknowledged when Close comes is reported and counted before
// it returns.
func TestCloseWaitsForReports(t *testing.T) {
	ctx := testContext(t)
	c := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"))
	h := &slowHandler{recorder: newRecorder(t), first: make(chan struct{})}
	let := make(chan struct{})
	h.let = func() { <-let }
	s := open(t, testConfig(t, c), h)
	produce(t, s, record("orders", 0, 0))
	<-h.first
	closed := make(chan int, 1)
	go func() {
		left, _ := s.Close(ctx)
		closed <- left
	}()
	select {
	case left := <-closed:
		t.Errorf("close returned with a report under way, and counted %d", left)
		closed <- left
	case <-time.After(50 * time.Millisecond):
	}
	close(let)
	if left := <-closed; left != 0 {
		t.Errorf("close counted %d unsettled, want 0: it was acknowledged", left)
	}
}
