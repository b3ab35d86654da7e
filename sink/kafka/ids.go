package kafka

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

// idWorkers get producer ids, each one after the other on a connection of its own: sarama
// waits for each answer.
const idWorkers = 4

// idPool gets a producer id for each partition: a shared one couldn't start a new epoch for
// one partition alone.
type idPool struct {
	sink *Sink
	wake chan struct{} // idWorkers, buffered

	mu    sync.Mutex
	queue []*partition
}

func newIDPool(s *Sink) *idPool {
	return &idPool{sink: s, wake: make(chan struct{}, idWorkers)}
}

// want asks for an id for p.
func (d *idPool) want(p *partition) {
	d.mu.Lock()
	d.queue = append(d.queue, p)
	d.mu.Unlock()
	signal(d.wake)
}

func (d *idPool) pop() *partition {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.queue) == 0 {
		return nil
	}
	p := d.queue[0]
	d.queue[0] = nil
	d.queue = d.queue[1:]
	return p
}

// run serves the queue. n tells the workers apart: they begin at different brokers.
func (d *idPool) run(ctx context.Context, n int) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.wake:
		}
		d.serve(ctx, n)
	}
}

// serve gets ids until nobody wants one, on one connection as long as it lives.
func (d *idPool) serve(ctx context.Context, n int) {
	var c *conn
	failed := 0
	for p := d.pop(); p != nil && ctx.Err() == nil; {
		var err error
		if c == nil {
			addrs := d.sink.addresses()
			c, err = d.sink.meta.dialer.open(ctx, addrs[(n+failed)%len(addrs)])
		}
		var id int64
		var epoch int16
		var code sarama.KError
		if err == nil && !c.rest(ctx) {
			break
		}
		if err == nil {
			id, epoch, code, err = askID(c)
		}
		if err == nil && code == sarama.ErrNoError && id >= 0 {
			p.topic.heal(p.num)
			p.handle(event{kind: evID, id: id, epoch: epoch})
			failed = 0
			p = d.pop()
			continue
		}
		if err != nil && c != nil {
			c.close()
			c = nil
		}
		if failed++; failed == 5 {
			d.sink.cfg.Log.Warn().Err(d.problem(err, code, id)).Msg("no producer id from Kafka yet; trying again")
		}
		if classify(int16(code)) == stopped {
			p.topic.stop(p.num, topicError(p.topic.name, p.num, int16(code), ""))
		}
		pause(ctx, backoff(failed, d.sink.cfg.MinBackoff, d.sink.cfg.MaxBackoff))
	}
	if c != nil {
		c.close()
	}
}

func (d *idPool) problem(err error, code sarama.KError, id int64) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("InitProducerId answered %s, id %d", codeName(int16(code)), id)
}

// askID gets a new producer id. Right after its start a broker answers with an error and id
// -1; what is produced with -1 is accepted and not idempotent, so that both must be looked at.
func askID(c *conn) (id int64, epoch int16, code sarama.KError, err error) {
	res, err := c.InitProducerID(&sarama.InitProducerIDRequest{
		Version:            4,
		TransactionTimeout: time.Minute,
		ProducerID:         -1,
		ProducerEpoch:      -1,
	})
	if err != nil {
		return -1, -1, 0, fmt.Errorf("get a producer id from broker %s: %w", c.Addr(), err)
	}
	c.throttle(res.ThrottleTime)
	return res.ProducerID, res.ProducerEpoch, res.Err, nil
}
