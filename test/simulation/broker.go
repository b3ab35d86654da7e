package simulation

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// refusals are the answers to a batch that is certainly not appended, doubts those that say
// nothing about it.
var (
	refusals = []int16{codeCorrupt, codeNoLeader, codeNotLeader, codeLoading, codeFewReplicas, codeStorage, codeThrottled}
	doubts   = []int16{codeUnknownServer, codeTimedOut, codeNetwork, codeFewAfterAppend}
)

// requested registers what a broker does with the oldest request of a connection.
func (l *life) requested(r *request) {
	o := &op{key: "kafka " + r.String(), tie: r.conn.tie, life: l, faults: []string{faultCut}}
	c := l.world.cluster
	o.stale = func() bool { return !r.conn.open() }
	o.ready = func() bool { return !time.Now().Before(c.mute) && (len(r.batches) > 0 || r.conn.open()) }
	switch msg := r.msg.(type) {
	case *kmsg.ProduceRequest:
		o.faults = append(o.faults, faultLate, faultRefused, faultDoubt, faultHang)
		o.do = func(fault string) { c.produce(r, fault) }
		o.landed = func() { c.late = append(c.late, r) }
	case *kmsg.MetadataRequest:
		o.faults = append(o.faults, faultRefused, faultHang, faultThrottle)
		o.do = func(fault string) {
			code := int16(0)
			if fault == faultRefused {
				code = codeNoLeader
			}
			c.reply(r, fault, func() kmsg.Response { return c.metadata(code) })
		}
	case *kmsg.InitProducerIDRequest:
		o.faults = append(o.faults, faultRefused, faultThrottle)
		o.prompt = true
		o.do = func(fault string) { c.reply(r, fault, func() kmsg.Response { return c.id(fault) }) }
	case *kmsg.DescribeProducersRequest:
		o.do = func(fault string) { c.reply(r, fault, func() kmsg.Response { return c.describe(r.conn.node, msg) }) }
	default:
		l.world.rules.broken("a request that nobody expects: %s", r)
		return
	}
	l.world.board.add(o)
}

// reply answers a small question in one operation.
func (c *cluster) reply(r *request, fault string, answer func() kmsg.Response) {
	switch {
	case fault == faultHang: // the relay gives up by itself
	case fault == faultCut || c.someDown() && c.w.rng.IntN(2) == 0:
		r.conn.cut(nil)
	default:
		res := answer()
		if fault == faultThrottle {
			c.throttle(res)
		}
		r.conn.answer(r.frame(res))
	}
}

// throttle has an answer ask for a pause, as a broker does whose quota is used up.
func (c *cluster) throttle(res kmsg.Response) {
	d := int32(100 + c.w.rng.IntN(5000))
	switch res := res.(type) {
	case *kmsg.ProduceResponse:
		res.ThrottleMillis = d
	case *kmsg.MetadataResponse:
		res.ThrottleMillis = d
	case *kmsg.InitProducerIDResponse:
		res.ThrottleMillis = d
	}
	c.w.trace.note("throttled for %d ms", d)
}

func (c *cluster) id(fault string) kmsg.Response {
	res := kmsg.NewPtrInitProducerIDResponse()
	if fault == faultRefused { // as a broker does that has just started
		res.ErrorCode, res.ProducerID, res.ProducerEpoch = codeLoading, -1, -1
		return res
	}
	c.ids++
	res.ProducerID = c.ids
	return res
}

// produce appends, and then, as an operation of its own, answers.
func (c *cluster) produce(r *request, fault string) {
	switch {
	case fault == faultLate: // the connection is lost, and the broker will see the request all the same
		c.late = append(c.late, r)
		r.conn.cut(nil)
		return
	case r.conn.node.down || fault == faultCut:
		r.conn.cut(nil)
		return
	}
	res := c.appendAll(r, fault)
	if fault == faultHang {
		return
	}
	o := &op{key: "kafka answer to " + r.String(), tie: r.conn.tie, life: r.life, faults: []string{faultCutAfter, faultHalf, faultHang, faultThrottle}}
	o.do = func(fault string) {
		if fault == faultThrottle {
			c.throttle(res)
		}
		frame := r.frame(res)
		switch {
		case fault == faultHang:
		case fault == faultHalf:
			r.conn.cut(frame[:len(frame)/2])
		case fault == faultCutAfter || r.conn.node.down:
			r.conn.cut(nil)
		default:
			r.conn.answer(frame)
		}
	}
	r.life.world.board.add(o)
}

// appendAll appends the batches of a request. With a fault of the answers, some of them get it.
func (c *cluster) appendAll(r *request, fault string) kmsg.Response {
	res := kmsg.NewPtrProduceResponse()
	t := kmsg.NewProduceResponseTopic()
	t.Topic = topicName
	rng := c.w.rng
	for i, b := range r.batches {
		p := kmsg.NewProduceResponseTopicPartition()
		p.Partition, p.BaseOffset = int32(b.partition), -1
		struck := i == 0 || rng.IntN(2) == 0
		switch {
		case fault == faultRefused && struck:
			p.ErrorCode = refusals[rng.IntN(len(refusals))]
		case fault == faultDoubt && struck:
			p.ErrorCode = doubts[rng.IntN(len(doubts))]
			if p.ErrorCode == codeFewAfterAppend || rng.IntN(2) == 0 {
				if code, _ := c.append(r.conn.node, b); code != 0 && p.ErrorCode == codeFewAfterAppend {
					p.ErrorCode = code
				}
			}
		default:
			p.ErrorCode, p.BaseOffset = c.append(r.conn.node, b)
		}
		if p.ErrorCode == codeInvalidRecord {
			p.ErrorRecords = dislikedOf(b)
		}
		c.w.trace.note("p%d: code %d, offset %d", b.partition, p.ErrorCode, p.BaseOffset)
		t.Partitions = append(t.Partitions, p)
	}
	res.Topics = append(res.Topics, t)
	return res
}

// dislikedOf names the records of a batch that are refused.
func dislikedOf(b *batch) (out []kmsg.ProduceResponseTopicPartitionErrorRecord) {
	for i := range b.records {
		if disliked(b.records[i]) {
			e := kmsg.NewProduceResponseTopicPartitionErrorRecord()
			e.RelativeOffset = int32(i)
			out = append(out, e)
		}
	}
	return out
}

// land appends what came over a connection that is gone. Nobody hears what became of it.
func (c *cluster) land(r *request) {
	for _, b := range r.batches {
		code, offset := c.append(r.conn.node, b)
		c.w.trace.note("p%d: code %d, offset %d", b.partition, code, offset)
	}
}

// someDown says whether a broker is away. Small questions go to any of them.
func (c *cluster) someDown() bool {
	return slices.ContainsFunc(c.nodes, func(n *node) bool { return n.down })
}
