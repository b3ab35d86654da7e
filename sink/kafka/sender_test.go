package kafka

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// standing returns a broker whose sender doesn't run, with n partitions that have something
// to send to it.
func standing(t *testing.T, n int, change ...func(*Config)) (*broker, []*partition) {
	t.Helper()
	c := newCluster(t, kfake.NumBrokers(1))
	cfg := testConfig(t, c)
	c.Close() // nobody answers
	for _, f := range change {
		f(&cfg)
	}
	s := open(t, cfg, newRecorder(t))
	b := &broker{sink: s, wake: make(chan struct{}, 1)}
	var ps []*partition
	for i := range n {
		produce(t, s, record("orders", int32(i), i))
		p := s.topics["orders"].parts[i]
		p.setRoute(b)
		p.handle(event{kind: evID, id: int64(i)})
		ps = append(ps, p)
	}
	return b, ps
}

func nums(ps []*partition) (out []int32) {
	for _, p := range ps {
		out = append(out, p.num)
	}
	return out
}

// TestCollectApart: a batch that is suspected gets a request of its own, and nobody is lost
// over it.
func TestCollectApart(t *testing.T) {
	b, ps := standing(t, 5)
	ps[1].lane.cuts = soloAfter
	ps[3].apart = true
	var got [][]int32
	for range 3 {
		req := b.collect()
		got = append(got, nums(req.parts))
		if len(req.parts) == 1 != req.apart {
			t.Errorf("request of %v is apart: %t", nums(req.parts), req.apart)
		}
	}
	if len(got[0]) != 3 || len(got[1]) != 1 || len(got[2]) != 1 {
		t.Errorf("requests of %v, want 3 partitions, then 1, then 1", got)
	}
	if req := b.collect(); len(req.parts) != 0 {
		t.Errorf("another request of %v", nums(req.parts))
	}
}

// TestCollectFull: what doesn't fit waits for the next request.
func TestCollectFull(t *testing.T) {
	b, ps := standing(t, 5)
	size := batchOverhead + recordSize(record("orders", 0, 0))
	b.sink.cfg.RequestBytes = 2*size + size/2
	seen := make(map[int32]bool)
	for range 3 {
		for _, p := range b.collect().parts {
			if seen[p.num] {
				t.Errorf("partition %d is in two requests", p.num)
			}
			seen[p.num] = true
		}
	}
	if len(seen) != len(ps) {
		t.Errorf("partitions %v were sent", seen)
	}
}

// TestCollectRerouted: what stands in the list of a broker that doesn't lead it any more is
// left to the one that does.
func TestCollectRerouted(t *testing.T) {
	b, ps := standing(t, 2)
	other := &broker{sink: b.sink, id: 1, wake: make(chan struct{}, 1)}
	ps[0].setRoute(other)
	ps[1].setRoute(other)
	ps[1].setRoute(b)
	if got := nums(b.collect().parts); len(got) != 1 || got[0] != 1 {
		t.Errorf("the old leader got %v, want 1", got)
	}
	if got := nums(other.collect().parts); len(got) != 1 || got[0] != 0 {
		t.Errorf("the new leader got %v, want 0", got)
	}
}

// TestBrokerMoves: a broker that listens elsewhere is connected to anew.
func TestBrokerMoves(t *testing.T) {
	b, _ := standing(t, 1)
	b.setAddr("a:9092")
	b.conn = new(conn)
	defer func() { b.conn = nil }()
	b.setAddr("a:9092")
	if b.broken != nil {
		t.Errorf("the same address: %v", b.broken)
	}
	b.setAddr("b:9092")
	if b.addr != "b:9092" || b.broken == nil {
		t.Errorf("the address is %s, and the old connection broken by %v", b.addr, b.broken)
	}
}

// TestClosedByPeer: only a broker that closes the connection may mean that a batch is too large.
func TestClosedByPeer(t *testing.T) {
	for _, x := range []struct {
		err  error
		want bool
	}{
		{io.EOF, true},
		{io.ErrUnexpectedEOF, true},
		{&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}, true},
		{&net.OpError{Op: "write", Err: os.NewSyscallError("write", syscall.EPIPE)}, true},
		{&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, false}, // it hangs
		{&net.OpError{Op: "read", Err: net.ErrClosed}, false},          // we closed it
		{errSocketClosed, false},
		{context.Canceled, false},
		{sarama.ErrNotConnected, false},
	} {
		if got := closedByPeer(x.err); got != x.want {
			t.Errorf("%v: closed by the broker: %t, want %t", x.err, got, x.want)
		}
	}
}

// TestIncompleteResponse: a partition that a response doesn't mention is sent again.
func TestIncompleteResponse(t *testing.T) {
	ctx := testContext(t)
	c := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(2, "orders"))
	var seen atomic.Int32
	onProduce(c, func(req *kmsg.ProduceRequest) (kmsg.Response, error, bool) {
		res := req.ResponseKind().(*kmsg.ProduceResponse)
		switch seen.Add(1) {
		case 1: // nothing at all
		case 2: // another topic
			st := kmsg.NewProduceResponseTopic()
			st.Topic = "other"
			st.Partitions = append(st.Partitions, kmsg.NewProduceResponseTopicPartition())
			res.Topics = append(res.Topics, st)
		default:
			return nil, nil, false
		}
		return res, nil, true
	})
	s := open(t, testConfig(t, c), newRecorder(t))
	steady(t, s, "orders", 2, 100, nil)
	flush(t, ctx, s)
	checkLog(t, ctx, c.ListenAddrs(), "orders", 100, nil)
}

// failingConn fails writes that are long enough to be a Produce request.
type failingConn struct {
	net.Conn
	left    *atomic.Int32
	partial bool
}

func (c *failingConn) Write(p []byte) (int, error) {
	if len(p) < 1000 || c.left.Add(-1) < 0 {
		return c.Conn.Write(p)
	}
	n := 0
	if c.partial {
		n, _ = c.Conn.Write(p[:len(p)/2])
	}
	return n, &net.OpError{Op: "write", Err: syscall.EPIPE}
}

// TestWriteFails: sarama calls nobody back for a request that it couldn't write.
func TestWriteFails(t *testing.T) {
	for _, partial := range []bool{false, true} {
		ctx := testContext(t)
		c := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(2, "orders"))
		cfg := testConfig(t, c)
		cfg.Compression = "none"
		var left atomic.Int32
		cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			nc, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			return &failingConn{nc, &left, partial}, err
		}
		s := open(t, cfg, newRecorder(t))
		for round := range 5 {
			left.Store(2)
			for i := round * 200; i < round*200+200; i++ {
				r := record("orders", int32(i%2), i)
				r.Headers[0].Value = make([]byte, 1000)
				produce(t, s, r)
			}
			flush(t, ctx, s)
		}
		if left.Load() >= 0 {
			t.Error("no write failed")
		}
		checkLog(t, ctx, c.ListenAddrs(), "orders", 1000, nil)
	}
}

// TestOpenHung: a broker that accepts connections and says nothing isn't connected to after
// one time-out; sarama would go on without knowing its versions.
func TestOpenHung(t *testing.T) {
	ctx := testContext(t)
	c := newCluster(t, kfake.NumBrokers(1))
	c.ControlKey(int16(kmsg.ApiVersions), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		return nil, nil, true
	})
	cfg := testConfig(t, c)
	cfg.ReadTimeout, cfg.ProduceTimeout = 50*time.Millisecond, 10*time.Millisecond
	s := open(t, cfg, newRecorder(t))
	_, err := s.dialer.open(ctx, c.ListenAddrs()[0])
	var timeout net.Error
	if !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("open: %v, want a time-out", err)
	}
}
