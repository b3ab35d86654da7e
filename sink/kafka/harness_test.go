package kafka

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-relay/cdc-relay/decode/shape"
	"github.com/cdc-relay/cdc-relay/internal/devenv/envtest"
	"github.com/cdc-relay/cdc-relay/sink"
	"github.com/cdc-relay/cdc-relay/wal"
)

func TestMain(m *testing.M) { envtest.Main(m) }

// number is a test's setting in the environment, or def.
func number(t *testing.T, name string, def int) int {
	t.Helper()
	if v := os.Getenv(name); v != "" {
		n, err := strconv.Atoi(v)
		must(t, err)
		return n
	}
	return def
}

const testTimeout = 30 * time.Second

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

func newCluster(t testing.TB, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// testConfig is quick where the defaults are patient.
func testConfig(t testing.TB, c *kfake.Cluster) Config {
	return Config{
		Brokers:        c.ListenAddrs(),
		ReadTimeout:    2 * time.Second,
		ProduceTimeout: time.Second,
		DialTimeout:    time.Second,
		WriteTimeout:   time.Second,
		MinBackoff:     2 * time.Millisecond,
		MaxBackoff:     50 * time.Millisecond,
		SlowBackoff:    50 * time.Millisecond,
		Log:            zerolog.New(t.Output()).Level(zerolog.WarnLevel),
	}
}

// recorder is a Handler that remembers, and fails the test where the contract is broken.
type recorder struct {
	t testing.TB

	mu      sync.Mutex
	next    map[string]uint64 // by topic and partition: the least ticket that may come
	acked   int
	settled map[uint64]bool
	topics  []error
	asked   []*RejectedError
	changed broadcast

	// verdict decides; nil: no record of the test is bad, and to be asked is a fault.
	verdict func(ctx context.Context, r *sink.Record, cause error) (sink.Verdict, error)
}

func newRecorder(t testing.TB) *recorder {
	return &recorder{t: t, next: make(map[string]uint64), settled: make(map[uint64]bool)}
}

func (h *recorder) Acked(rs []*sink.Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.changed.tell()
	for _, r := range rs {
		h.settle(r)
		h.acked++
	}
}

// settle notes a record; tickets are given in Produce order.
func (h *recorder) settle(r *sink.Record) {
	k := fmt.Sprintf("%s/%d", r.Topic, r.Partition)
	if r.Ticket < h.next[k] {
		h.t.Errorf("%s: record %d settled behind %d", k, r.Ticket, h.next[k]-1)
	}
	h.next[k] = r.Ticket + 1
}

func (h *recorder) Reject(ctx context.Context, r *sink.Record, cause error) (sink.Verdict, error) {
	h.mu.Lock()
	re, ok := cause.(*RejectedError)
	if !ok {
		h.t.Errorf("cause is %T, want *RejectedError", cause)
	}
	h.asked = append(h.asked, re)
	f := h.verdict
	h.mu.Unlock()
	h.changed.tell()
	if f == nil {
		h.t.Errorf("a verdict was asked on a good record: %v", cause)
		return sink.Settled, nil
	}
	v, err := f(ctx, r, cause)
	if err == nil && v == sink.Settled {
		h.mu.Lock()
		h.settle(r)
		h.settled[r.Ticket] = true
		h.mu.Unlock()
	}
	return v, err
}

func (h *recorder) Topic(topic string, err error) {
	h.mu.Lock()
	h.topics = append(h.topics, err)
	h.mu.Unlock()
	h.changed.tell()
}

// await waits until cond, called with the recorder locked, is true.
func (h *recorder) await(ctx context.Context, what string, cond func() bool) {
	h.t.Helper()
	for {
		wait := h.changed.wait()
		h.mu.Lock()
		ok := cond()
		h.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-ctx.Done():
			h.t.Fatalf("waiting for %s: %v", what, ctx.Err())
		case <-wait:
		}
	}
}

// poll waits until cond is true.
func poll(t testing.TB, ctx context.Context, what string, cond func() bool) {
	t.Helper()
	for !cond() {
		if !pause(ctx, time.Millisecond) {
			t.Fatalf("waiting for %s: %v", what, ctx.Err())
		}
	}
}

// record is number n of a test.
func record(topic string, partition int32, n int) *sink.Record {
	return &sink.Record{
		Event: shape.Event{
			Position:    wal.Position{Lineage: 1, Commit: wal.LSN(1000 + n)},
			Topic:       topic,
			Key:         fmt.Appendf(nil, "key-%d", n%50),
			Value:       fmt.Appendf(nil, "value-%d", n),
			Headers:     []shape.Header{{Key: "n", Value: fmt.Append(nil, n)}, {Key: "null"}},
			TimestampMs: time.Now().UnixMilli(),
			DedupeKey:   fmt.Sprintf("e:%d", n),
		},
		Partition: partition,
		Ticket:    uint64(n),
	}
}

// open opens a sink that is closed with the test.
func open(t testing.TB, cfg Config, h sink.Handler) *Sink {
	t.Helper()
	s, err := Open(context.Background(), cfg, h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := s.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func produce(t testing.TB, s *Sink, rs ...*sink.Record) {
	t.Helper()
	for _, r := range rs {
		if err := s.Produce(context.Background(), r); err != nil {
			t.Fatal(err)
		}
	}
}

func flush(t testing.TB, ctx context.Context, s *Sink) {
	t.Helper()
	if err := s.Flush(ctx); err != nil {
		t.Fatalf("flush: %v; %+v", err, s.Stats())
	}
}

// client is a client of another make.
func client(t testing.TB, addrs []string) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addrs...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// readAll reads what the topic holds, per partition in order.
func readAll(t testing.TB, ctx context.Context, addrs []string, topic string) map[int32][]*kgo.Record {
	t.Helper()
	cl := client(t, addrs)
	ends, err := endOffsets(ctx, cl, topic)
	if err != nil {
		t.Fatal(err)
	}
	left := int64(0)
	at := make(map[int32]kgo.Offset)
	for p, n := range ends {
		if n > 0 {
			left += n
			at[p] = kgo.NewOffset().AtStart()
		}
	}
	out := make(map[int32][]*kgo.Record)
	cl.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: at})
	for left > 0 {
		fs := cl.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			t.Fatalf("read %s: %v, %d records to come", topic, err, left)
		}
		fs.EachRecord(func(r *kgo.Record) {
			out[r.Partition] = append(out[r.Partition], r)
			left--
		})
	}
	return out
}
