package kafka

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-relay/cdc-relay/sink"
)

// storm makes faults happen to a cluster, one kind after the other as the dice fall.
type storm struct {
	c     *kfake.Cluster
	nw    *network
	dice  *rand.Rand
	next  atomic.Int32 // what becomes of the next Produce request: a stormFault
	kinds map[string]int
}

const (
	calm int32 = iota
	cutBefore
	hang
)

// one makes one fault.
func (st *storm) one(ctx context.Context) {
	codes := append(append([]int16(nil), everyCode[moved]...), everyCode[refused]...)
	codes = append(codes, everyCode[unknown]...)
	kind := ""
	switch n := st.dice.IntN(100); {
	case n < 15:
		kind = "cut before the append"
		st.next.Store(cutBefore)
	case n < 35:
		kind = "cut after the append"
		st.nw.cutAnswers(1+st.dice.IntN(3), false)
	case n < 45:
		kind = "half an answer"
		st.nw.cutAnswers(1, true)
	case n < 60:
		kind = "leaders move"
		st.c.ShufflePartitionLeaders()
	case n < 63:
		kind = "outage"
		st.nw.away(true)
		pause(ctx, time.Duration(st.dice.IntN(50))*time.Millisecond)
		st.nw.away(false)
	case n < 65:
		kind = "no answer"
		st.next.Store(hang)
	default:
		code := codes[st.dice.IntN(len(codes))]
		kind = codeName(code)
		st.c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: &kerr.Error{Code: code, Message: "TEST"}, Count: 1 + st.dice.IntN(4)})
	}
	st.kinds[kind]++
}

// TestStorm publishes through a storm of faults with bad records in between. STORM_RECORDS
// makes it longer, STORM_SEED repeats one.
func TestStorm(t *testing.T) {
	n := number(t, "STORM_RECORDS", 60_000)
	seed := number(t, "STORM_SEED", int(time.Now().UnixNano()))
	t.Logf("STORM_SEED=%d", seed)

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute+time.Duration(n)*time.Millisecond)
	defer cancel()
	nw := newNetwork()
	c := newCluster(t, kfake.NumBrokers(3), kfake.SeedTopics(12, "orders"), nw.option())
	st := &storm{c: c, nw: nw, dice: rand.New(rand.NewPCG(uint64(seed), 1)), kinds: make(map[string]int)}
	onProduce(c, func(*kmsg.ProduceRequest) (kmsg.Response, error, bool) {
		switch st.next.Swap(calm) {
		case cutBefore:
			return nil, errors.New("cut"), true
		case hang:
			return nil, nil, true
		}
		return nil, nil, false
	})
	rejectWith(t, c, 87, seed%2 == 0)
	cfg := testConfig(t, c)
	cfg.Compression = "none"
	cfg.ReadTimeout, cfg.ProduceTimeout = 300*time.Millisecond, 100*time.Millisecond
	cfg.Log = cfg.Log.Level(4) // a storm of warnings tells nothing
	h := newRecorder(t)
	var asked atomic.Int32
	h.verdict = func(context.Context, *sink.Record, error) (sink.Verdict, error) {
		if asked.Add(1)%3 == 0 {
			return sink.Retry, nil
		}
		return sink.Settled, nil
	}
	s := open(t, cfg, h)
	const every = 500
	bad := func(i int) bool { return i%every == every/2 }
	for i := range n {
		if i%400 == 0 {
			poll(t, ctx, "the records before", func() bool { return s.settled.Load()+10_000 > uint64(i) })
			st.one(ctx)
		}
		produce(t, s, poison(record("orders", int32(st.dice.IntN(12)), i), every))
	}
	flush(t, ctx, s)
	stats := s.Stats()
	t.Logf("%+v\n%v", stats, st.kinds)
	if stats.Epochs != 0 {
		t.Errorf("%d new epochs although no broker lost a state", stats.Epochs)
	}
	for i := range n {
		if bad(i) != h.settled[uint64(i)] {
			t.Fatalf("record %d: settled by a verdict: %t", i, h.settled[uint64(i)])
		}
	}
	checkLog(t, ctx, c.ListenAddrs(), "orders", n, bad)
	if len(h.topics) > 0 {
		t.Errorf("topic states %v", h.topics)
	}
	if h.acked+len(h.settled) != n {
		t.Errorf("%d acks and %d verdicts, want %d", h.acked, len(h.settled), n)
	}
}
