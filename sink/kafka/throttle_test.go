package kafka

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// throttled answers each request of a kind with the demand to send nothing for d (KIP-219), and
// tells how many there were.
func throttled(c *kfake.Cluster, key kmsg.Key, d time.Duration) *atomic.Int32 {
	var n atomic.Int32
	c.ControlKey(int16(key), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		n.Add(1)
		switch req := kreq.(type) {
		case *kmsg.ProduceRequest:
			res := answerWith(req, 19)
			res.(*kmsg.ProduceResponse).ThrottleMillis = int32(d / time.Millisecond)
			return res, nil, true
		case *kmsg.MetadataRequest:
			res := req.ResponseKind().(*kmsg.MetadataResponse)
			res.ThrottleMillis = int32(d / time.Millisecond)
			return res, nil, true
		case *kmsg.InitProducerIDRequest:
			res := req.ResponseKind().(*kmsg.InitProducerIDResponse)
			res.ProducerID, res.ErrorCode = -1, 14
			res.ThrottleMillis = int32(d / time.Millisecond)
			return res, nil, true
		}
		return nil, nil, false
	})
	return &n
}

// TestCloseWhileThrottled: a broker whose quota is used up wants no requests for a while. Close
// waits no longer for that than it may.
func TestCloseWhileThrottled(t *testing.T) {
	for _, key := range []kmsg.Key{kmsg.Produce, kmsg.Metadata, kmsg.InitProducerID} {
		t.Run(key.Name(), func(t *testing.T) {
			t.Parallel()
			ctx := testContext(t)
			c := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"))
			n := throttled(c, key, 8*time.Second)
			s := open(t, testConfig(t, c), newRecorder(t))
			produce(t, s, record("orders", 0, 0))
			poll(t, ctx, "the answer", func() bool { return n.Load() > 0 })
			pause(ctx, 200*time.Millisecond) // so that the next request is due
			short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
			closed := make(chan int, 1)
			go func() {
				left, _ := s.Close(short)
				closed <- left
			}()
			select {
			case left := <-closed:
				if left != 1 {
					t.Errorf("%d unsettled, want 1", left)
				}
			case <-time.After(5 * time.Second):
				t.Error("close waits until the broker wants requests again")
				<-closed
			}
			if n.Load() > 4 {
				t.Errorf("%d requests to a broker that wants none", n.Load())
			}
		})
	}
}
