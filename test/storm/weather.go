package storm

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The kinds of weather.
const (
	kindCutBefore  = "connection cut before the append"
	kindCutAfter   = "connection cut after the append"
	kindHalfAnswer = "half an answer, then cut"
	kindHang       = "no answer at all"
	kindDelay      = "answer delayed"
	kindMetadata   = "metadata request cut"
	kindMove       = "leader of a partition moved"
	kindShuffle    = "all leaders moved"
	kindOutage     = "broker out, leaders stay"
	kindReplace    = "broker gone and back, leaders moved"
	kindCode       = "answer " // and the code's name
)

// codes are the answers that say "try again". kfake appends nothing, except with those that a
// real broker gives after the append: REQUEST_TIMED_OUT and NOT_ENOUGH_REPLICAS_AFTER_APPEND.
var codes = []*kerr.Error{
	kerr.CorruptMessage, kerr.UnknownTopicOrPartition, kerr.LeaderNotAvailable, kerr.NotLeaderForPartition,
	kerr.RequestTimedOut, kerr.BrokerNotAvailable, kerr.ReplicaNotAvailable, kerr.NetworkException,
	kerr.CoordinatorLoadInProgress, kerr.NotEnoughReplicas, kerr.NotEnoughReplicasAfterAppend,
	kerr.KafkaStorageError, kerr.FencedLeaderEpoch, kerr.UnknownLeaderEpoch, kerr.ThrottlingQuotaExceeded,
	kerr.UnknownServerError,
}

// inARow is how often at most a code is the answer to the requests for the same partitions,
// one after the other. CORRUPT_MESSAGE comes so often that a sink which splits a batch for it
// gets down to single records; UNKNOWN_TOPIC_OR_PARTITION not so often that the topic would
// rightly be taken for missing.
func inARow(c *kerr.Error) int {
	if c == kerr.CorruptMessage {
		return 16
	}
	return 4
}

// fates are the kinds that the wire brings about.
var fates = map[string]struct {
	fate fate
	key  kmsg.Key
}{
	kindCutBefore:  {cutBefore, kmsg.Produce},
	kindCutAfter:   {cutAfter, kmsg.Produce},
	kindHalfAnswer: {halfAnswer, kmsg.Produce},
	kindHang:       {hang, kmsg.Produce},
	kindDelay:      {delay, kmsg.Produce},
	kindMetadata:   {cutAfter, kmsg.Metadata},
}

// kinds returns the names of all kinds.
func kinds() []string {
	all := append(slices.Collect(maps.Keys(fates)), kindMove, kindShuffle, kindOutage, kindReplace)
	for _, c := range codes {
		all = append(all, kindCode+c.Message)
	}
	slices.Sort(all)
	return all
}

// weather does to a cluster what can happen to one, in an order that a seed decides. Its
// methods but counts are for one goroutine.
type weather struct {
	cluster    *kfake.Cluster
	wire       *wire
	topic      string
	partitions int32
	addresses  map[int32]string // by node
	rng        *rand.Rand
	deck       []string // kinds to come
	codes      []coded
	outages    sync.WaitGroup

	mu      sync.Mutex
	struck  map[string]int
	pending int // armed and not yet struck
}

// coded is an answer that kfake was told to give.
type coded struct {
	kind   string
	handle *kfake.FaultHandle
}

func newWeather(c *kfake.Cluster, w *wire, topic string, partitions int32, seed uint64) *weather {
	we := &weather{
		cluster: c, wire: w, topic: topic, partitions: partitions,
		addresses: make(map[int32]string),
		rng:       rand.New(rand.NewPCG(seed, 1)),
		struck:    make(map[string]int),
	}
	for node, address := range c.ListenAddrs() {
		we.addresses[int32(node)] = address // kfake numbers its nodes from 0
	}
	return we
}

// next brings about one fault, or arms it.
func (w *weather) next() error {
	if len(w.deck) == 0 {
		w.deck = kinds()
		w.rng.Shuffle(len(w.deck), func(i, j int) { w.deck[i], w.deck[j] = w.deck[j], w.deck[i] })
	}
	kind := w.deck[0]
	w.deck = w.deck[1:]
	if f, ok := fates[kind]; ok {
		w.add(0, 1, kind)
		w.wire.arm(f.fate, f.key, func() { w.add(1, -1, kind) })
		return nil
	}
	var err error
	switch kind {
	case kindMove:
		err = w.cluster.MoveTopicPartition(w.topic, w.rng.Int32N(w.partitions), w.node())
	case kindShuffle:
		w.cluster.ShufflePartitionLeaders()
	case kindOutage:
		w.outage(w.node())
	case kindReplace:
		err = w.replace(w.node())
	default:
		w.answer(kind)
		return nil
	}
	if err != nil {
		return fmt.Errorf("make weather %q: %w", kind, err)
	}
	w.add(1, 0, kind)
	return nil
}

func (w *weather) node() int32 { return w.rng.Int32N(int32(len(w.addresses))) }

// outage makes a broker unreachable for a while. Its partitions keep their leader, as with
// one replica.
func (w *weather) outage(node int32) {
	d := w.wire.door(w.addresses[node])
	d.close()
	end := time.After(time.Duration(20+w.rng.IntN(200)) * time.Millisecond)
	w.outages.Go(func() {
		<-end
		d.open()
	})
}

// replace takes a broker out of the cluster, which moves leaders, and adds it again at the
// same address.
func (w *weather) replace(node int32) error {
	w.outages.Wait() // one of this node would shut the door of the new one
	address := w.addresses[node]
	d := w.wire.door(address)
	d.close()
	defer d.open()
	if err := w.cluster.RemoveNode(node); err != nil {
		return err
	}
	var port int
	if _, err := fmt.Sscanf(address[strings.LastIndexByte(address, ':')+1:], "%d", &port); err != nil {
		return err
	}
	_, _, err := w.cluster.AddNode(node, port)
	return err
}

// answer makes kfake answer the batches of some partitions in the next request, or the next
// few, with a code. The other batches of those requests get through, so that one request has
// both outcomes.
func (w *weather) answer(kind string) {
	i := slices.IndexFunc(codes, func(c *kerr.Error) bool { return kindCode+c.Message == kind })
	var some []int32
	for _, p := range w.rng.Perm(int(w.partitions))[:(w.partitions+1)/2] {
		some = append(some, int32(p))
	}
	h := w.cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Produce}, Topic: w.topic, Partitions: some, Err: codes[i],
		Count: 1 + w.rng.IntN(inARow(codes[i])),
	})
	w.add(0, 1, kind)
	w.codes = append(w.codes, coded{kind: kind, handle: h})
}

// add books faults that struck and faults that wait.
func (w *weather) add(struck, pending int, kind string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.struck[kind] += struck
	w.pending += pending
}

// settle waits until at most n faults are armed and have not struck, so that the storm keeps
// up with the traffic.
func (w *weather) settle(ctx context.Context, n int) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		w.codes = slices.DeleteFunc(w.codes, func(c coded) bool {
			struck := c.handle.Hits() > 0
			if struck {
				w.add(1, -1, c.kind)
			}
			return struck
		})
		w.mu.Lock()
		pending := w.pending
		w.mu.Unlock()
		if pending <= n {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait until %d armed faults strike: %w", pending, ctx.Err())
		}
	}
}

// clear ends what lasts: outages, and faults that have not struck.
func (w *weather) clear() {
	w.outages.Wait()
	for _, c := range w.codes {
		c.handle.Remove()
	}
	w.wire.disarm()
}

// counts returns how often each kind struck, and a table of it.
func (w *weather) counts() (map[string]int, string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	total := 0
	for _, k := range kinds() {
		fmt.Fprintf(t, "%s\t%d\n", k, w.struck[k])
		total += w.struck[k]
	}
	fmt.Fprintf(t, "all\t%d\n", total)
	_ = t.Flush() // a strings.Builder takes everything
	return maps.Clone(w.struck), b.String()
}
