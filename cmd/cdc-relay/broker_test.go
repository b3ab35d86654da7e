package main

import (
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// holdProduce makes the broker take no record until it is released, and answer so: not enough replicas.
func holdProduce(c *kfake.Cluster) (release func()) {
	var released atomic.Bool
	c.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) { // kfake's signature
		c.KeepControl()
		r, ok := req.(*kmsg.ProduceRequest)
		if !ok || released.Load() {
			return nil, nil, false
		}
		resp := r.ResponseKind().(*kmsg.ProduceResponse) // that of a ProduceRequest
		for _, t := range r.Topics {
			rt := kmsg.NewProduceResponseTopic()
			rt.Topic, rt.TopicID = t.Topic, t.TopicID
			for _, p := range t.Partitions {
				rp := kmsg.NewProduceResponseTopicPartition()
				rp.Partition, rp.ErrorCode = p.Partition, 19 // NOT_ENOUGH_REPLICAS
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		return resp, nil, true
	})
	return func() { released.Store(true) }
}
