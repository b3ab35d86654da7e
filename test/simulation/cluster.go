package simulation

import (
	"math"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const topicName = "orders"

// cluster is Kafka: nodes, and the partitions of one topic.
type cluster struct {
	w     *world
	nodes []*node
	parts []*partition
	ids   int64 // of producers, given so far

	// modern brokers take any sequence from a producer that they don't know; older ones answer
	// UNKNOWN_PRODUCER_ID.
	modern bool
	// named: a repeat is answered with DUPLICATE_SEQUENCE_NUMBER, not with the first one's offset.
	named  bool
	limit  int        // of a batch's size; 0: none
	picky  bool       // some records are refused by name
	denied bool       // nobody may write to the topic
	mute   time.Time  // until when brokers take no request
	late   []*request // that arrived on a connection which is gone
}

type node struct {
	id   int32
	host string
	down bool
}

type partition struct {
	leader    *node
	former    *node     // that led before
	lagging   time.Time // until when metadata may still name it
	log       []*event
	producers map[int64]*producer
	// refused counts for each life the answers that refused what was in the log already, or what a
	// forgotten producer sent, since it last appended something.
	refused map[*life]int
}

// producer is what the leader remembers of one: the last five batches.
type producer struct {
	epoch   int16
	batches []span
}

type span struct {
	first, last int32
	offset      int64
}

const remembered = 5

func newCluster(w *world, nodes, parts int) *cluster {
	c := &cluster{w: w, ids: 1000}
	for i := range nodes {
		c.nodes = append(c.nodes, &node{id: int32(i), host: string(rune('a' + i))})
	}
	c.grow(parts)
	return c
}

func (c *cluster) grow(n int) {
	for range n {
		c.parts = append(c.parts, &partition{leader: c.nodes[len(c.parts)%len(c.nodes)], producers: map[int64]*producer{}, refused: map[*life]int{}})
	}
}

func (c *cluster) at(addr string) *node {
	for _, n := range c.nodes {
		if n.host+":9092" == addr {
			return n
		}
	}
	return c.nodes[0]
}

// restart comes back with what the log tells of producers: the last batch of each.
func (c *cluster) restart() {
	for _, p := range c.parts {
		for _, s := range p.producers {
			s.batches = s.batches[max(0, len(s.batches)-1):]
		}
	}
}

// forget drops what the partitions know of their producers.
func (c *cluster) forget() {
	for _, p := range c.parts {
		clear(p.producers)
	}
}

// Error codes, from Kafka's protocol guide.
const (
	codeUnknownServer  = -1
	codeCorrupt        = 2
	codeUnknownTopic   = 3
	codeNoLeader       = 5
	codeNotLeader      = 6
	codeTimedOut       = 7
	codeTooLarge       = 10
	codeNetwork        = 13
	codeLoading        = 14
	codeFewReplicas    = 19
	codeDenied         = 29
	codeFewAfterAppend = 20
	codeOutOfOrder     = 45
	codeDuplicate      = 46
	codeOldEpoch       = 47
	codeStorage        = 56
	codeNoProducer     = 59
	codeInvalidRecord  = 87
	codeThrottled      = 89
)

// append is what a leader does with a batch. offset is -1 where it names none.
func (c *cluster) append(n *node, b *batch) (code int16, offset int64) {
	if b.topic != topicName || b.partition >= len(c.parts) {
		return codeUnknownTopic, -1
	}
	p := c.parts[b.partition]
	if p.leader != n {
		return codeNotLeader, -1
	}
	s := p.producers[b.producer]
	if code := c.refusal(b); code != 0 {
		if s.has(b) || s == nil && b.first > 0 { // or it has forgotten what it has
			p.refused[b.life]++
		}
		return code, -1
	}
	switch {
	case b.producer < 0:
		c.w.rules.broken("a batch for partition %d has no producer id: sent twice, it is appended twice", b.partition)
	case s == nil && !c.modern && b.first != 0:
		c.w.count(producerUnknown)
		return codeNoProducer, -1
	case s == nil:
		s = &producer{epoch: b.epoch}
		p.producers[b.producer] = s
	case b.epoch < s.epoch:
		return codeOldEpoch, -1
	case b.epoch > s.epoch && b.first != 0:
		return codeOutOfOrder, -1
	case b.epoch > s.epoch:
		s.epoch, s.batches = b.epoch, nil
	default:
		if code, offset, known := s.sequence(b); known {
			if code == 0 {
				c.w.count(batchKnown)
				if c.named {
					return codeDuplicate, -1
				}
			}
			return code, offset
		}
	}
	offset = int64(len(p.log))
	s.batches = append(s.batches, span{b.first, b.last(), offset})
	s.batches = s.batches[max(0, len(s.batches)-remembered):]
	for i := range b.records {
		p.log = append(p.log, c.w.rules.appended(b.partition, &b.records[i], b.life))
	}
	delete(p.refused, b.life)
	return 0, offset
}

// refusal is what a broker has against a batch, before it looks whether it knows it.
func (c *cluster) refusal(b *batch) int16 {
	switch {
	case c.denied:
		return codeDenied
	case c.limit > 0 && b.size > c.limit:
		c.w.count(batchTooLarge)
		return codeTooLarge
	case c.picky && slices.ContainsFunc(b.records, disliked):
		return codeInvalidRecord
	}
	return 0
}

// disliked are the records that a picky broker refuses.
func disliked(r record) bool { return r.ms%4 == 0 }

func (c *cluster) sick() bool { return c.limit > 0 || c.picky || c.denied }

func (c *cluster) heal() { c.limit, c.picky, c.denied = 0, false, false }

// has says whether a batch, or one that begins with it, is in the log and remembered.
func (s *producer) has(b *batch) bool {
	return s != nil && b.epoch == s.epoch && slices.ContainsFunc(s.batches, func(x span) bool {
		return x.first == b.first && b.last() <= x.last
	})
}

// sequence holds a batch of the same epoch against what is remembered.
func (s *producer) sequence(b *batch) (code int16, offset int64, known bool) {
	for _, x := range s.batches {
		if x.first == b.first && x.last == b.last() {
			return 0, x.offset, true
		}
	}
	if last := s.batches[len(s.batches)-1].last; (last+1)&math.MaxInt32 != b.first {
		return codeOutOfOrder, -1, true
	}
	return 0, 0, false
}

// metadata describes the topic. A code is the partitions' where it is about leaders, and the
// topic's otherwise.
func (c *cluster) metadata(code int16) kmsg.Response {
	res := kmsg.NewPtrMetadataResponse()
	for _, n := range c.nodes {
		b := kmsg.NewMetadataResponseBroker()
		b.NodeID, b.Host, b.Port = n.id, n.host, 9092
		res.Brokers = append(res.Brokers, b)
	}
	t := kmsg.NewMetadataResponseTopic()
	t.Topic, t.TopicID = kmsg.StringPtr(topicName), [16]byte{1, 2, 3}
	if code == codeUnknownTopic {
		t.ErrorCode = code
		res.Topics = append(res.Topics, t)
		return res
	}
	for i, p := range c.parts {
		mp := kmsg.NewMetadataResponseTopicPartition()
		mp.Partition, mp.Leader = int32(i), p.leader.id
		if time.Now().Before(p.lagging) && c.w.rng.IntN(2) == 0 {
			mp.Leader = p.former.id
			c.w.count(oldMetadata)
		}
		if code != 0 {
			mp.ErrorCode, mp.Leader = code, -1
		}
		t.Partitions = append(t.Partitions, mp)
	}
	res.Topics = append(res.Topics, t)
	return res
}

func (c *cluster) describe(n *node, req *kmsg.DescribeProducersRequest) kmsg.Response {
	res := kmsg.NewPtrDescribeProducersResponse()
	for _, t := range req.Topics {
		rt := kmsg.NewDescribeProducersResponseTopic()
		rt.Topic = t.Topic
		for _, i := range t.Partitions {
			rp := kmsg.NewDescribeProducersResponseTopicPartition()
			rp.Partition = i
			if c.parts[i].leader != n {
				rp.ErrorCode = codeNotLeader
				c.w.count(wrongLeader)
				rt.Partitions = append(rt.Partitions, rp)
				continue
			}
			for id, s := range c.parts[i].producers {
				a := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
				a.ProducerID, a.ProducerEpoch, a.LastSequence = id, int32(s.epoch), s.batches[len(s.batches)-1].last
				rp.ActiveProducers = append(rp.ActiveProducers, a)
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		res.Topics = append(res.Topics, rt)
	}
	return res
}
