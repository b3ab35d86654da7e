package kafka

import (
	"context"
	"fmt"

	"github.com/IBM/sarama"
)

const probeAttempts = 3

// probe asks the leader what it knows of p's producer, to tell whether what is in doubt is
// in the log (KIP-664, Kafka 2.8 and later; it needs READ on the topic). Where it can't be
// told, the lane goes on without.
func (s *Sink) probe(p *partition, leader *broker, id int64, epoch int16, seq int32) {
	ev := event{kind: evProbed}
	for n := 1; n <= probeAttempts && leader != nil; n++ {
		st, final, err := s.describeProducer(s.ctx, p, leader, id)
		if err == nil {
			ev.known = true
			ev.lastSeq = -1
			if st != nil {
				ev.epoch, ev.lastSeq = int16(st.ProducerEpoch), st.LastSequence
			}
			break
		}
		p.log().Warn().Err(err).Msg("can't tell whether an earlier attempt is in the log")
		if final || !pause(s.ctx, backoff(n, s.cfg.MinBackoff, s.cfg.MaxBackoff)) {
			break
		}
	}
	p.handle(ev)
}

// describeProducer returns the leader's state of the producer, nil where it has none. final
// says that another attempt would end the same way.
func (s *Sink) describeProducer(ctx context.Context, p *partition, leader *broker, id int64) (st *sarama.ProducerState, final bool, err error) {
	leader.mu.Lock()
	addr := leader.addr
	leader.mu.Unlock()
	c, err := s.meta.dialer.open(ctx, addr)
	if err != nil {
		return nil, false, err
	}
	defer c.close()
	res, err := c.DescribeProducers(&sarama.DescribeProducersRequest{
		Topics: []sarama.DescribeProducersRequestTopic{{Name: p.topic.name, PartitionIndexes: []int32{p.num}}},
	})
	if err != nil {
		return nil, false, fmt.Errorf("describe the producers of topic %q partition %d: %w", p.topic.name, p.num, err)
	}
	for _, t := range res.Topics {
		for i := range t.Partitions {
			pt := &t.Partitions[i]
			if t.Name != p.topic.name || pt.PartitionIndex != p.num {
				continue
			}
			if pt.ErrorCode != sarama.ErrNoError {
				cl := classify(int16(pt.ErrorCode))
				return nil, cl == stopped || cl == strange, fmt.Errorf("describe the producers of topic %q partition %d: %s", p.topic.name, p.num, codeName(int16(pt.ErrorCode)))
			}
			for j := range pt.ActiveProducers {
				if pt.ActiveProducers[j].ProducerID == id {
					return &pt.ActiveProducers[j], false, nil
				}
			}
			return nil, false, nil
		}
	}
	return nil, false, fmt.Errorf("describe the producers of topic %q partition %d: the response doesn't mention it", p.topic.name, p.num)
}
