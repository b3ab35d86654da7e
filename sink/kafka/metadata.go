package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

// metadata keeps the routes fresh: one goroutine with a connection of its own.
type metadata struct {
	sink   *Sink
	dialer *dialer
	wake   chan struct{} // one, buffered

	conn   *conn
	next   int // which address is tried next
	failed int // refreshes in a row that left something open

	mu     sync.Mutex
	halted []*topic // to be halted
}

// poke asks for fresh metadata soon.
func (m *metadata) poke() { signal(m.wake) }

// halt asks that all lanes of t halt.
func (m *metadata) halt(t *topic) {
	m.mu.Lock()
	m.halted = append(m.halted, t)
	m.mu.Unlock()
	m.poke()
}

func (m *metadata) run(ctx context.Context) {
	defer m.drop()
	tick := time.NewTicker(m.sink.cfg.MetadataInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.wake:
		case <-tick.C:
		}
		m.haltTopics()
		d := m.sink.cfg.MinBackoff / 2
		if open := m.refresh(ctx); open {
			m.failed++
			d = backoff(m.failed, m.sink.cfg.MinBackoff, m.sink.cfg.MaxBackoff)
			m.poke()
		} else {
			m.failed = 0
		}
		if !pause(ctx, d) {
			return
		}
	}
}

func (m *metadata) haltTopics() {
	m.mu.Lock()
	ts := m.halted
	m.halted = nil
	m.mu.Unlock()
	for _, t := range ts {
		t.mu.Lock()
		t.halted = true
		t.mu.Unlock()
		for _, p := range t.all() {
			p.handle(event{kind: evHalt})
		}
	}
}

// refresh fetches the metadata of all topics in use once. It says whether something is left
// open: nobody answered, or records wait for a leader.
func (m *metadata) refresh(ctx context.Context) (open bool) {
	topics := m.sink.validTopics()
	if len(topics) == 0 {
		return false
	}
	names := make([]string, len(topics))
	for i, t := range topics {
		names[i] = t.name
	}
	res, err := m.fetch(ctx, names)
	if err != nil {
		if ctx.Err() == nil && m.failed == 0 {
			m.sink.cfg.Log.Warn().Err(err).Msg("no metadata from Kafka; trying again")
		}
		return true
	}
	m.sink.learn(res)
	for _, t := range topics {
		open = t.waitsForRoute() || open
	}
	return open
}

// fetch asks one broker after the other until one answers.
func (m *metadata) fetch(ctx context.Context, names []string) (*sarama.MetadataResponse, error) {
	var errs []error
	addrs := m.sink.addresses()
	for range len(addrs) {
		if m.conn == nil {
			c, err := m.dialer.open(ctx, addrs[m.next%len(addrs)])
			if err != nil {
				m.next++
				errs = append(errs, err)
				continue
			}
			m.conn = c
		}
		if !m.conn.rest(ctx) {
			break
		}
		res, err := askMetadata(m.conn, names)
		if err == nil {
			return res, nil
		}
		errs = append(errs, err)
		m.drop()
		m.next++
		if ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("ask Kafka for metadata: %w", errors.Join(errs...))
}

func (m *metadata) drop() {
	if m.conn != nil {
		m.conn.close()
		m.conn = nil
	}
}

func askMetadata(c *conn, names []string) (*sarama.MetadataResponse, error) {
	req := sarama.NewMetadataRequest(sarama.MaxVersion, names)
	req.AllowAutoTopicCreation = false
	res, err := c.GetMetadata(req)
	if err != nil {
		return nil, fmt.Errorf("ask broker %s for metadata: %w", c.Addr(), err)
	}
	c.throttle(time.Duration(res.ThrottleTimeMs) * time.Millisecond)
	return res, nil
}

// learn takes over what res says about brokers and leaders.
func (s *Sink) learn(res *sarama.MetadataResponse) {
	nodes := make(map[int32]*broker, len(res.Brokers))
	for _, b := range res.Brokers {
		nodes[b.ID()] = s.broker(b.ID(), b.Addr())
	}
	s.forget(nodes)
	for _, tm := range res.Topics {
		if t := s.topicNamed(tm.Name); t != nil {
			t.learn(tm, nodes)
		}
	}
}

// learn takes over what the metadata says about the topic.
func (t *topic) learn(tm *sarama.TopicMetadata, nodes map[int32]*broker) {
	code := int16(tm.Err)
	switch classify(code) {
	case acked:
		t.misses = 0
	case moved, refused, unknown:
		return // an election is under way
	case missing:
		if t.misses++; t.misses > maxMisses {
			t.stop(-1, topicError(t.name, -1, code, ""))
		}
		t.setLeaders(nil)
		return
	default:
		t.stop(-1, topicError(t.name, -1, code, ""))
		t.setLeaders(nil)
		return
	}
	if t.recreated(tm.Uuid) {
		return
	}
	leaders := make([]*broker, 0, len(tm.Partitions))
	for _, pm := range tm.Partitions {
		for int(pm.ID) >= len(leaders) {
			leaders = append(leaders, nil)
		}
		// A missing replica doesn't concern us, with any other error there is no leader.
		if pm.Err == sarama.ErrNoError || pm.Err == sarama.ErrReplicaNotAvailable {
			leaders[pm.ID] = nodes[pm.Leader]
		}
	}
	t.setLeaders(leaders)
	t.checkRange(len(leaders))
}

// checkRange stops the topic while records wait for a partition that it hasn't got.
func (t *topic) checkRange(n int) {
	for _, p := range t.all() {
		if int(p.num) >= n && p.taken.Load() > p.done.Load() {
			t.stop(-1, topicError(t.name, p.num, codeUnknownTopic, fmt.Sprintf("the topic has %d partitions", n)))
			return
		}
	}
	t.heal(-1)
}

// recreated halts the topic when it is another one than before and records were
// acknowledged by the old one.
func (t *topic) recreated(id sarama.Uuid) bool {
	var none sarama.Uuid
	t.mu.Lock()
	old := t.id
	if id != none {
		t.id = id
	}
	halted := t.halted
	t.mu.Unlock()
	if halted {
		return true
	}
	if old == none || id == none || id == old {
		return false
	}
	err := &RegressedError{Topic: t.name, Partition: -1, Cause: "it was deleted and made again", Offset: 0}
	lost := false
	for _, p := range t.all() {
		p.mu.Lock()
		if p.trail.last.Lineage != 0 {
			lost = true
			from, last := p.trail.lost(0)
			if err.From.Lineage == 0 || from.Compare(err.From) < 0 {
				err.From = from
			}
			if err.Last.Lineage == 0 || err.Last.Compare(last) < 0 {
				err.Last = last
			}
		}
		p.mu.Unlock()
	}
	if !lost {
		return false
	}
	t.stop(-1, err)
	t.sink.meta.halt(t)
	return true
}

// setLeaders routes the partitions.
func (t *topic) setLeaders(leaders []*broker) {
	t.mu.Lock()
	t.leaders = leaders
	t.mu.Unlock()
	for _, p := range t.all() {
		var b *broker
		if int(p.num) < len(leaders) {
			b = leaders[p.num]
		}
		p.setRoute(b)
	}
}

func (t *topic) waitsForRoute() bool {
	for _, p := range t.all() {
		if p.waitsForRoute() {
			return true
		}
	}
	return false
}
