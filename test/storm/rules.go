package storm

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// rules watches produce requests and their answers for what Apache Kafka needs and kfake
// forgives. See the package's documentation.
type rules struct {
	mu     sync.Mutex
	lanes  map[place]*laneRules
	owners map[int64]place // of producer ids
	seen   seen
	broken []string
}

// seen are totals.
type seen struct {
	requests int // to produce
	batches  int
	retries  int // batches at the sequence of the one before
	late     int // batches older than one that was answered: copies that the network kept
}

// place is a partition of a topic.
type place struct {
	topic     string
	partition int32
}

// laneRules is what was seen of one partition.
type laneRules struct {
	newest   batch
	answered bool // newest, or a batch that began where it begins, was answered as appended
	probed   bool // the client asked for the producer's state, so it may know without an answer
}

// batch is what the header of a record batch says about its order.
type batch struct {
	producer int64
	epoch    int16
	first, n int32
}

func (b batch) next() int32 { return (b.first + b.n) & math.MaxInt32 }

// Where a record batch (magic 2) has its fields: the Kafka protocol's "Record Batch".
const (
	atProducer = 43
	atEpoch    = 51
	atSequence = 53
	atCount    = 57
	batchHead  = 61
)

// request reads one request, header included, and checks what it would produce. It returns
// the batches of a produce request.
func (r *rules) request(b []byte) (version int16, batches map[place]batch) {
	key := kmsg.Key(int16(binary.BigEndian.Uint16(b)))
	if key != kmsg.Produce && key != kmsg.DescribeProducers {
		return 0, nil
	}
	req := key.Request()
	req.SetVersion(int16(binary.BigEndian.Uint16(b[2:])))
	in := kbin.Reader{Src: b[8:]} // after key, version and correlation id
	in.NullableString()           // the client's id
	if req.IsFlexible() {
		kmsg.SkipTags(&in)
	}
	err := req.ReadFrom(in.Src)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.breach("a request of kind %s can't be read: %v", key.Name(), err)
		return 0, nil
	}
	switch req := req.(type) {
	case *kmsg.DescribeProducersRequest:
		for _, t := range req.Topics {
			for _, p := range t.Partitions {
				r.lane(place{t.Topic, p}).probed = true
			}
		}
	case *kmsg.ProduceRequest:
		batches = make(map[place]batch)
		r.seen.requests++
		for _, t := range req.Topics {
			for _, p := range t.Partitions {
				at := place{t.Topic, p.Partition}
				if _, twice := batches[at]; twice {
					r.breach("%s: two batches in one request", at)
				}
				batches[at] = r.batch(at, p.Records)
			}
		}
	}
	return req.GetVersion(), batches
}

// batch checks one batch against the newest one of its partition. The caller holds mu.
func (r *rules) batch(at place, records []byte) batch {
	if len(records) < batchHead {
		r.breach("%s: a batch of %d bytes", at, len(records))
		return batch{}
	}
	b := batch{
		producer: int64(binary.BigEndian.Uint64(records[atProducer:])),
		epoch:    int16(binary.BigEndian.Uint16(records[atEpoch:])),
		first:    int32(binary.BigEndian.Uint32(records[atSequence:])),
		n:        int32(binary.BigEndian.Uint32(records[atCount:])),
	}
	r.seen.batches++
	if b.producer < 0 {
		r.breach("%s: a batch without a producer id: sent twice, it is appended twice", at)
		return b
	}
	if r.owners == nil {
		r.owners = make(map[int64]place)
	}
	if owner, ok := r.owners[b.producer]; ok && owner != at {
		r.breach("%s uses the producer id of %s: a new epoch of one fences the other in kfake", at, owner)
	}
	r.owners[b.producer] = at

	l := r.lane(at)
	last := l.newest
	fresh := last.n == 0 || b.producer != last.producer || b.epoch > last.epoch
	switch {
	case fresh && b.first != 0:
		r.breach("%s: a new producer id or epoch begins at sequence %d", at, b.first)
	case fresh:
		l.newest, l.answered = b, false
	case b.epoch == last.epoch && b.first == last.first:
		r.seen.retries++
		l.newest = b
	case b.epoch == last.epoch && b.first == last.next():
		if !l.answered && !l.probed {
			r.breach("%s: sequence %d is sent before %d to %d was answered: a broker that restarts remembers only one batch",
				at, b.first, last.first, last.next()-1)
		}
		l.newest, l.answered = b, false
	case b.epoch == last.epoch && b.first-last.next() > 0: // also across the wrap
		r.breach("%s: sequence %d leaves a gap after %d", at, b.first, last.next()-1)
	default:
		r.seen.late++
	}
	return b
}

// answer books an answer to a produce request that reaches the client.
func (r *rules) answer(frame []byte, version int16, batches map[place]batch) {
	resp := kmsg.NewPtrProduceResponse()
	resp.SetVersion(version)
	in := kbin.Reader{Src: frame[8:]} // after size and correlation id
	if resp.IsFlexible() {
		kmsg.SkipTags(&in)
	}
	err := resp.ReadFrom(in.Src)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.breach("the answer to a produce request can't be read: %v", err)
		return
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			at := place{t.Topic, p.Partition}
			if p.ErrorCode == 0 && r.lane(at).newest == batches[at] {
				r.lane(at).answered = true
			}
		}
	}
}

// lane returns what was seen of a partition. The caller holds mu.
func (r *rules) lane(at place) *laneRules {
	if r.lanes == nil {
		r.lanes = make(map[place]*laneRules)
	}
	l := r.lanes[at]
	if l == nil {
		l = &laneRules{}
		r.lanes[at] = l
	}
	return l
}

// breach books a breach. The caller holds mu.
func (r *rules) breach(format string, args ...any) {
	if len(r.broken) < 20 {
		r.broken = append(r.broken, fmt.Sprintf(format, args...))
	}
}

// verdict returns the totals and what was broken.
func (r *rules) verdict() (seen, []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen, r.broken
}

func (p place) String() string { return fmt.Sprintf("%s/%d", p.topic, p.partition) }
