package kafka

import (
	"errors"
	"sync"

	"github.com/IBM/sarama"
)

// topic is what the partitions of one topic share.
type topic struct {
	sink    *Sink
	name    string
	invalid bool // no topic can have this name

	mu      sync.Mutex
	parts   []*partition // by number; nil where nothing was produced to
	leaders []*broker    // by number, from the newest metadata
	id      sarama.Uuid  // zero until known, or where brokers are older than 2.8
	misses  int          // metadata in a row that say it is missing
	stops   map[int32]error
	told    error // what Handler.Topic was told last
	halted  bool
}

// partition returns partition num, made where it is new.
func (t *topic) partition(num int32) *partition {
	t.mu.Lock()
	defer t.mu.Unlock()
	for int(num) >= len(t.parts) {
		t.parts = append(t.parts, nil)
	}
	p := t.parts[num]
	if p == nil {
		p = &partition{sink: t.sink, topic: t, num: num, lane: newLane(t.sink.cfg.BatchBytes)}
		p.lane.closed = t.halted
		if int(num) < len(t.leaders) {
			p.route = t.leaders[num]
		}
		t.parts[num] = p
	}
	return p
}

// all returns the partitions in use.
func (t *topic) all() []*partition {
	t.mu.Lock()
	defer t.mu.Unlock()
	ps := make([]*partition, 0, len(t.parts))
	for _, p := range t.parts {
		if p != nil {
			ps = append(ps, p)
		}
	}
	return ps
}

// stop notes that a partition, or with -1 the whole topic, can't be published to.
func (t *topic) stop(num int32, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stops == nil {
		t.stops = make(map[int32]error)
	}
	first := len(t.stops) == 0
	t.stops[num] = err
	if first || fatal(err) && !fatal(t.told) {
		t.tell(err)
	}
}

// heal takes back what stop noted for num.
func (t *topic) heal(num int32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.stops[num]; !ok {
		return
	}
	delete(t.stops, num)
	if len(t.stops) == 0 {
		t.tell(nil)
	}
}

func (t *topic) tell(err error) {
	t.told = err
	if err == nil {
		t.sink.cfg.Log.Info().Str("topic", t.name).Msg("topic can be published to again")
	} else {
		t.sink.cfg.Log.Error().Str("topic", t.name).Err(err).Msg("topic can't be published to")
	}
	t.sink.reports.push(report{topic: t.name, err: err})
	t.sink.flushed.tell() // Flush doesn't wait for what can't come any more
}

// dead returns why the topic, or a partition of it, never goes on; nil where it may.
func (t *topic) dead() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if fatal(t.told) {
		return t.told
	}
	return nil
}

// fatal says that err never heals by itself.
func fatal(err error) bool {
	var regressed *RegressedError
	var stuck *StuckError
	return errors.As(err, &regressed) || errors.As(err, &stuck)
}
