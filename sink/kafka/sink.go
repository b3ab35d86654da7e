package kafka

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"github.com/IBM/sarama"

	"github.com/cdc-relay/cdc-relay/sink"
)

// Sink publishes to Kafka. It implements sink.Sink; the other methods may be called from any
// goroutine.
type Sink struct {
	cfg    Config
	codec  sarama.CompressionCodec
	dialer *dialer
	h      sink.Handler

	ctx         context.Context // ends all goroutines but the reporter
	cancel      context.CancelFunc
	rejectCtx   context.Context // given to Handler.Reject
	stopRejects context.CancelFunc

	meta    *metadata
	ids     *idPool
	clock   *clock
	reports *reporter
	flushed broadcast

	taken   atomic.Uint64
	settled atomic.Uint64
	stats   counters

	mu      sync.Mutex
	topics  map[string]*topic
	brokers map[int32]*broker
	closed  bool
	wg      sync.WaitGroup // all but the reporter
	told    sync.WaitGroup // the reporter

	closeOnce sync.Once
	left      int
}

var _ sink.Sink = (*Sink)(nil)

// Open checks the configuration and starts the sink. Kafka needn't be there yet: the sink
// connects when it has something to send, and keeps trying. ctx ends the sink's work, in the
// same way as Close does but without waiting.
func Open(ctx context.Context, cfg Config, h sink.Handler) (*Sink, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	codec, err := codecOf(cfg.Compression)
	if err != nil {
		return nil, err
	}
	sc, err := cfg.sarama()
	if err != nil {
		return nil, err
	}
	dial := cfg.Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	s := &Sink{
		cfg: cfg, codec: codec, h: h,
		dialer:  &dialer{sc, dial},
		clock:   newClock(),
		reports: newReporter(h),
		topics:  make(map[string]*topic),
		brokers: make(map[int32]*broker),
	}
	// Metadata and producer ids are small questions: who doesn't answer them soon, won't.
	small := *sc
	small.Net.ReadTimeout = min(small.Net.ReadTimeout, smallTimeout)
	small.Net.WriteTimeout = min(small.Net.WriteTimeout, smallTimeout)
	small.Net.DialTimeout = min(small.Net.DialTimeout, smallTimeout)
	s.meta = &metadata{sink: s, dialer: &dialer{&small, dial}, wake: make(chan struct{}, 1)}
	s.ids = newIDPool(s)
	s.ctx, s.cancel = context.WithCancel(ctx)
	s.rejectCtx, s.stopRejects = context.WithCancel(s.ctx)

	s.told.Go(s.reports.run)
	s.wg.Go(func() { s.meta.run(s.ctx) })
	s.wg.Go(func() { s.clock.run(s.ctx) })
	for n := range idWorkers {
		s.wg.Go(func() { s.ids.run(s.ctx, n) })
	}
	return s, nil
}

// Produce implements sink.Sink. It doesn't block.
func (s *Sink) Produce(ctx context.Context, r *sink.Record) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if r.Partition < 0 {
		return fmt.Errorf("produce to topic %q: partition %d can't exist", r.Topic, r.Partition)
	}
	s.mu.Lock()
	if s.closed || s.ctx.Err() != nil {
		s.mu.Unlock()
		return fmt.Errorf("produce to topic %q: %w", r.Topic, sink.ErrClosed)
	}
	t := s.topics[r.Topic]
	if t == nil {
		t = &topic{sink: s, name: r.Topic, invalid: !validTopic(r.Topic)}
		s.topics[r.Topic] = t
	}
	s.taken.Add(1)
	s.mu.Unlock()
	t.partition(r.Partition).append(r)
	return nil
}

// Flush implements sink.Sink.
func (s *Sink) Flush(ctx context.Context) error {
	type goal struct {
		p *partition
		n uint64
	}
	var goals []goal
	for _, p := range s.partitions() {
		goals = append(goals, goal{p, p.taken.Load()})
	}
	for {
		wait := s.flushed.wait()
		for len(goals) > 0 && goals[0].p.done.Load() >= goals[0].n {
			goals = goals[1:]
		}
		if len(goals) == 0 {
			return nil
		}
		for _, g := range goals {
			if err := g.p.topic.dead(); err != nil {
				return fmt.Errorf("flush: %w", err)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.ctx.Done():
			return fmt.Errorf("flush: %w", sink.ErrClosed)
		case <-wait:
		}
	}
}

// Close implements sink.Sink.
func (s *Sink) Close(ctx context.Context) (unsettled int, err error) {
	s.closeOnce.Do(func() { s.left = s.close(ctx) })
	return s.left, nil
}

func (s *Sink) close(ctx context.Context) int {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	for _, p := range s.partitions() {
		p.handle(event{kind: evClose})
	}
	s.stopRejects()
	s.drain(ctx)
	s.cancel()
	s.wg.Wait()
	s.reports.end()
	s.told.Wait()
	return int(s.taken.Load() - s.settled.Load())
}

// drain waits for the answers that brokers still owe.
func (s *Sink) drain(ctx context.Context) {
	for {
		wait := s.flushed.wait()
		n := 0
		for _, p := range s.partitions() {
			p.mu.Lock()
			if p.lane.state == inFlight {
				n++
			}
			p.mu.Unlock()
		}
		if n == 0 {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-s.ctx.Done():
			return
		case <-wait:
		}
	}
}

// spawn runs f unless the sink is closed.
func (s *Sink) spawn(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.wg.Go(f)
	}
}

// partitions returns those in use.
func (s *Sink) partitions() []*partition {
	s.mu.Lock()
	ts := make([]*topic, 0, len(s.topics))
	for _, t := range s.topics {
		ts = append(ts, t)
	}
	s.mu.Unlock()
	var ps []*partition
	for _, t := range ts {
		ps = append(ps, t.all()...)
	}
	return ps
}

func (s *Sink) topicNamed(name string) *topic {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.topics[name]
}

// validTopics returns the topics in use that Kafka can be asked about.
func (s *Sink) validTopics() []*topic {
	s.mu.Lock()
	defer s.mu.Unlock()
	ts := make([]*topic, 0, len(s.topics))
	for _, t := range s.topics {
		if !t.invalid {
			ts = append(ts, t)
		}
	}
	return ts
}

// broker returns the node id, which listens at addr.
func (s *Sink) broker(id int32, addr string) *broker {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.brokers[id]
	if b == nil {
		b = &broker{sink: s, id: id, addr: addr, wake: make(chan struct{}, 1)}
		s.brokers[id] = b
		if !s.closed {
			s.wg.Go(func() { b.run(s.ctx) })
		}
		return b
	}
	b.setAddr(addr)
	return b
}

// forget marks the nodes that the cluster hasn't got any more.
func (s *Sink) forget(nodes map[int32]*broker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, b := range s.brokers {
		b.mu.Lock()
		b.gone = nodes[id] == nil
		b.mu.Unlock()
	}
}

// addresses returns where brokers listen: those known from metadata, then the configured.
func (s *Sink) addresses() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var as []string
	for _, b := range s.brokers {
		b.mu.Lock()
		if !b.gone {
			as = append(as, b.addr)
		}
		b.mu.Unlock()
	}
	return append(as, s.cfg.Brokers...)
}

// broadcast wakes all that wait. Telling is cheap while nobody does.
type broadcast struct {
	mu sync.Mutex
	ch chan struct{}
}

// wait returns a channel that the next tell closes.
func (b *broadcast) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

func (b *broadcast) tell() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}
