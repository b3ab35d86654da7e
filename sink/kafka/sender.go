package kafka

import (
	"context"
	"errors"
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/IBM/sarama"
)

// idleLimit is when a connection that nothing was sent on is made anew: brokers close idle
// ones after ten minutes (connections.max.idle.ms), which would look like a lost request.
const idleLimit = 4 * time.Minute

// broker is one node of the cluster with the goroutine that sends to it.
type broker struct {
	sink *Sink
	id   int32
	wake chan struct{} // one, buffered

	mu       sync.Mutex
	addr     string
	ready    []*partition
	inFlight int
	broken   error // why the connection must be thrown away
	conn     *conn // nil while there is none; only the sender opens, uses and closes it

	gone bool // not in the newest metadata

	// The sender's own:
	sent   int // bytes of the last request, before compression
	spare  []*partition
	failed int // connection attempts in a row
	used   time.Time
}

// request is what is in flight to a broker.
type request struct {
	parts   []*partition
	batches []*batch
	// apart says that its one batch was given a request of its own.
	apart bool
}

// push puts a partition into the ready list.
func (b *broker) push(p *partition) {
	b.mu.Lock()
	b.ready = append(b.ready, p)
	b.mu.Unlock()
	signal(b.wake)
}

// setAddr notes where the node listens.
func (b *broker) setAddr(addr string) {
	b.mu.Lock()
	if b.addr != addr {
		b.addr = addr
		if b.conn != nil && b.broken == nil {
			b.broken = errors.New("the broker moved to " + addr)
		}
	}
	b.mu.Unlock()
	signal(b.wake)
}

// run sends until ctx ends.
func (b *broker) run(ctx context.Context) {
	defer b.disconnect(ctx)
	for b.await(ctx) {
		if b.disconnect(ctx) {
			continue
		}
		b.dropIdle()
		if b.conn == nil && !b.connect(ctx) {
			continue
		}
		b.send()
	}
}

// await returns once there is something to do: a connection to throw away, or a request to
// send. It returns false when ctx ends.
func (b *broker) await(ctx context.Context) bool {
	for {
		if ctx.Err() != nil {
			return false
		}
		b.mu.Lock()
		room := b.inFlight == 0 || b.inFlight < produceInFlight && b.sent >= largeRequest
		broken, due, c := b.broken != nil, len(b.ready) > 0 && room, b.conn
		b.mu.Unlock()
		var rested <-chan time.Time
		if due && c != nil {
			if d := c.throttled(); d > 0 {
				due, rested = false, time.After(d)
			}
		}
		if broken || due {
			return true
		}
		select {
		case <-ctx.Done():
		case <-b.wake:
		case <-rested:
		}
	}
}

// disconnect throws the connection away if it is broken or ctx has ended, and says whether
// it did.
func (b *broker) disconnect(ctx context.Context) bool {
	b.mu.Lock()
	err, c := b.broken, b.conn
	if c == nil || err == nil && ctx.Err() == nil {
		b.broken = nil
		b.mu.Unlock()
		return false
	}
	b.mu.Unlock()
	c.close() // the callbacks of what is in flight run before it returns
	b.mu.Lock()
	b.conn, b.broken = nil, nil
	b.mu.Unlock()
	if ctx.Err() == nil {
		b.sink.stats.reconnects.Add(1)
		if b.sink.cfg.Lost != nil {
			b.sink.cfg.Lost()
		}
		b.sink.cfg.Log.Warn().Int32("broker", b.id).Err(err).Msg("connection to a broker lost")
		b.sink.meta.poke()
	}
	return true
}

// dropIdle closes a connection that nothing was sent on for long.
func (b *broker) dropIdle() {
	b.mu.Lock()
	c := b.conn
	if c == nil || b.inFlight > 0 || time.Since(b.used) < idleLimit {
		b.mu.Unlock()
		return
	}
	b.conn = nil
	b.mu.Unlock()
	c.close()
}

func (b *broker) connect(ctx context.Context) bool {
	b.mu.Lock()
	addr := b.addr
	b.mu.Unlock()
	c, err := b.sink.dialer.open(ctx, addr)
	if err == nil {
		b.mu.Lock()
		b.conn = c
		b.mu.Unlock()
		b.used = time.Now()
		if b.failed > 0 {
			b.sink.cfg.Log.Info().Int32("broker", b.id).Str("addr", addr).Msg("connected to a broker again")
		}
		b.failed = 0
		return true
	}
	if ctx.Err() != nil {
		return false
	}
	if b.failed++; b.failed == 1 {
		b.sink.cfg.Log.Warn().Int32("broker", b.id).Err(err).Msg("can't connect to a broker; trying again")
	}
	// The leaders may have moved; what stands in the list is rerouted then.
	b.sink.meta.poke()
	pause(ctx, backoff(b.failed, b.sink.cfg.MinBackoff, b.sink.cfg.MaxBackoff))
	return false
}

// send puts what is ready into one request and sends it.
func (b *broker) send() {
	req := b.collect()
	if len(req.parts) == 0 {
		return
	}
	b.mu.Lock()
	b.inFlight++
	b.mu.Unlock()
	b.used = time.Now()
	b.sink.stats.requests.Add(1)
	c := b.conn
	err := c.AsyncProduce(b.sink.encode(req), func(res *sarama.ProduceResponse, err error) {
		if err != nil {
			b.fail(err)
		} else {
			c.throttle(res.ThrottleTime)
		}
		b.answered(req, res, err, unknown)
	})
	var encoding sarama.PacketEncodingError
	switch {
	case err == nil:
	case errors.As(err, &encoding):
		// Nothing was written. Which record it is shows when each partition is alone.
		cl := refused
		if req.apart {
			cl = rejected
		}
		b.answered(req, nil, err, cl)
	case errors.Is(err, sarama.ErrUnsupportedVersion):
		b.answered(req, nil, err, stopped)
	default:
		b.fail(err)
		b.answered(req, nil, err, unknown)
	}
}

// collect lets ready lanes freeze a batch each, as far as one request goes.
func (b *broker) collect() *request {
	b.mu.Lock()
	list := b.ready
	b.ready = b.spare[:0]
	b.mu.Unlock()

	req := &request{}
	b.sent = 0
	left := b.sink.cfg.RequestBytes
	var back []*partition
	for _, p := range list {
		if req.apart || left < batchOverhead {
			back = append(back, p)
			continue
		}
		limit := left
		if len(req.parts) == 0 {
			limit = int(sarama.MaxRequestSize) // one batch of any size
		}
		bt, again := p.take(b, limit, len(req.parts) == 0, req)
		if again {
			back = append(back, p)
		}
		if bt != nil {
			left -= bt.bytes
			b.sent += bt.bytes
		}
	}
	clear(list)
	b.mu.Lock()
	b.spare = list[:0]
	if len(back) > 0 {
		b.ready = append(back, b.ready...)
	}
	b.mu.Unlock()
	return req
}

// take lets the lane put a batch into req. again says that it must be asked again for the
// next request.
func (p *partition) take(b *broker, limit int, first bool, req *request) (bt *batch, again bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listed != b {
		return nil, false // rerouted meanwhile
	}
	apart := p.apart || p.lane.solo()
	if apart && !first {
		return nil, true
	}
	p.acts = p.lane.step(event{kind: evTake, limit: limit}, p.acts[:0])
	for i := range p.acts {
		if p.acts[i].kind == actSend {
			bt = p.acts[i].batch
			req.parts = append(req.parts, p)
			req.batches = append(req.batches, bt)
			req.apart = apart
		}
	}
	if bt == nil && p.lane.state == ready && !p.lane.closed {
		return nil, true
	}
	p.listed = nil
	p.perform()
	return bt, false
}

// encode builds the request. Version 10 is lowered to what the broker has.
func (s *Sink) encode(req *request) *sarama.ProduceRequest {
	pr := &sarama.ProduceRequest{
		RequiredAcks: sarama.WaitForAll,
		Timeout:      int32(s.cfg.ProduceTimeout / time.Millisecond),
		Version:      10,
	}
	for i, p := range req.parts {
		pr.AddBatch(p.topic.name, p.num, req.batches[i].encode(s.codec))
	}
	return pr
}

// fail notes that the connection can't be used any more.
func (b *broker) fail(err error) {
	b.mu.Lock()
	if b.broken == nil {
		b.broken = err
	}
	b.mu.Unlock()
	signal(b.wake)
}

// answered tells the lanes of req what became of their batches. Without a response, cl is
// what err means for all of them.
func (b *broker) answered(req *request, res *sarama.ProduceResponse, err error, cl class) {
	for _, p := range req.parts {
		ev := event{kind: evAnswer, class: cl, offset: -1, alone: len(req.parts) == 1}
		switch {
		case err != nil:
			ev.reason = err.Error()
			ev.cut = cl == unknown && closedByPeer(err)
			if cl == stopped {
				ev.code = int16(sarama.ErrUnsupportedVersion)
			}
		default:
			ev = answerOf(res.GetBlock(p.topic.name, p.num), ev)
		}
		p.answered(&ev, err, cl == refused)
	}
	b.mu.Lock()
	b.inFlight--
	b.mu.Unlock()
	signal(b.wake)
	b.sink.flushed.tell() // Close waits for answers
}

// answerOf translates a partition's part of a response.
func answerOf(block *sarama.ProduceResponseBlock, ev event) event {
	if block == nil {
		ev.class = unknown
		ev.reason = "the response doesn't mention the partition"
		return ev
	}
	ev.code = int16(block.Err)
	ev.class = classify(ev.code)
	ev.offset = block.Offset
	if block.ErrorMessage != nil {
		ev.reason = *block.ErrorMessage
	}
	for i := range block.RecordErrors {
		re := &block.RecordErrors[i]
		ev.bad = append(ev.bad, re.BatchIndex)
		if ev.reason == "" && re.BatchIndexErrorMessage != nil {
			ev.reason = *re.BatchIndexErrorMessage
		}
	}
	return ev
}

func (p *partition) answered(ev *event, err error, apart bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ev.class != acked {
		switch {
		case err != nil:
			p.last = err.Error()
		case ev.reason != "":
			p.last = codeName(ev.code) + ": " + ev.reason
		default:
			p.last = codeName(ev.code)
		}
	}
	p.apart = apart
	id, epoch := p.lane.id, p.lane.epoch
	p.acts = p.lane.step(*ev, p.acts[:0])
	if p.lane.id != id || p.lane.epoch != epoch {
		p.sink.stats.epochs.Add(1)
		p.log().Warn().Str("answer", p.last).Msg("the broker lost the producer's state: a new epoch, and what is unacknowledged may be repeated")
	}
	p.perform()
}

// closedByPeer tells a connection that the broker closed from one that we gave up.
func closedByPeer(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
