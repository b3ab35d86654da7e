package kafka

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// network is what a test does to the connections of a cluster.
type network struct {
	mu      sync.Mutex
	conns   map[*netConn]struct{}
	refuse  bool
	cut     int // of the next answers to Produce requests, lose so many
	half    bool
	cutSeen int
	codes   int // of the next answers to Produce requests, so many have another code
	code    int16
}

func newNetwork() *network { return &network{conns: make(map[*netConn]struct{})} }

// option lets a cluster listen through n.
func (n *network) option() kfake.Opt {
	return kfake.ListenFn(func(network, addr string) (net.Listener, error) {
		l, err := net.Listen(network, addr)
		if err != nil {
			return nil, err
		}
		return &netListener{l, n}, nil
	})
}

// away cuts all connections and refuses new ones, or lets them in again.
func (n *network) away(yes bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refuse = yes
	if yes {
		for c := range n.conns {
			c.Conn.Close()
		}
	}
}

// cutAnswers loses the next count answers to Produce requests, whole or but for their
// beginning, with the connection.
func (n *network) cutAnswers(count int, half bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut, n.half = count, half
}

// recode gives the next count answers to Produce requests another code: the broker did what it
// was asked, and says something else.
func (n *network) recode(count int, code int16) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.codes, n.code = count, code
}

// recoded is an answer to a Produce request (version 10, which is what we send) with code.
func recoded(p []byte, code int16) []byte {
	const head = 4 + 4 + 1 // length, correlation id, no tags
	res := kmsg.ProduceResponse{Version: 10}
	if err := res.ReadFrom(p[head:]); err != nil {
		return nil // and the connection is of no use any more
	}
	for i := range res.Topics {
		for j := range res.Topics[i].Partitions {
			res.Topics[i].Partitions[j].ErrorCode, res.Topics[i].Partitions[j].BaseOffset = code, -1
		}
	}
	out := res.AppendTo(bytes.Clone(p[:head]))
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	return out
}

func (n *network) seen() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cutSeen
}

type netListener struct {
	net.Listener
	n *network
}

func (l *netListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		l.n.mu.Lock()
		if l.n.refuse {
			l.n.mu.Unlock()
			c.Close()
			continue
		}
		nc := &netConn{Conn: c, n: l.n}
		l.n.conns[nc] = struct{}{}
		l.n.mu.Unlock()
		return nc, nil
	}
}

// netConn is a broker's end of a connection.
type netConn struct {
	net.Conn
	n *network

	head []byte // of the request that is being read
	left int    // of its body
	keys []int16
}

// Read notes which requests come in.
func (c *netConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	for b := p[:n]; len(b) > 0; {
		if c.left > 0 {
			k := min(c.left, len(b))
			c.left -= k
			b = b[k:]
			continue
		}
		c.head = append(c.head, b[0])
		b = b[1:]
		if len(c.head) == 6 {
			c.left = int(binary.BigEndian.Uint32(c.head)) - 2
			c.n.mu.Lock()
			c.keys = append(c.keys, int16(binary.BigEndian.Uint16(c.head[4:])))
			c.n.mu.Unlock()
			c.head = c.head[:0]
		}
	}
	return n, err
}

// Write loses an answer where the test wants that. kfake writes each in one piece.
func (c *netConn) Write(p []byte) (int, error) {
	c.n.mu.Lock()
	produce := len(c.keys) > 0 && c.keys[0] == int16(kmsg.Produce)
	if len(c.keys) > 0 {
		c.keys = c.keys[1:]
	}
	cut := produce && c.n.cut > 0
	if cut {
		c.n.cut--
		c.n.cutSeen++
	}
	half := c.n.half
	out := p
	if produce && !cut && c.n.codes > 0 {
		c.n.codes--
		out = recoded(p, c.n.code)
	}
	c.n.mu.Unlock()
	if !cut {
		_, err := c.Conn.Write(out)
		return len(p), err
	}
	if half {
		_, _ = c.Conn.Write(p[:len(p)/2])
	}
	c.Close()
	return 0, errors.New("cut by the test")
}

func (c *netConn) Close() error {
	c.n.mu.Lock()
	delete(c.n.conns, c)
	c.n.mu.Unlock()
	return c.Conn.Close()
}

// onProduce lets f look at the Produce requests of a cluster, and answer them.
func onProduce(c *kfake.Cluster, f func(req *kmsg.ProduceRequest) (kmsg.Response, error, bool)) {
	c.ControlKey(int16(kmsg.Produce), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		return f(kreq.(*kmsg.ProduceRequest))
	})
}

// records cuts an uncompressed batch into its records.
func records(t testing.TB, batch []byte) [][]byte {
	t.Helper()
	var rb kmsg.RecordBatch
	if err := rb.ReadFrom(batch); err != nil {
		t.Errorf("batch: %v", err)
		return nil
	}
	if rb.Attributes&7 != 0 {
		t.Error("the test can't read compressed batches")
		return nil
	}
	var out [][]byte
	for b := rb.Records; len(b) > 0; {
		n, k := binary.Varint(b)
		out = append(out, b[k:k+int(n)])
		b = b[k+int(n):]
	}
	return out
}

// rejectWith refuses batches that hold a record with "poison" in it, as Kafka does: nothing
// of the batch is appended. Where named, the response says which records it is.
func rejectWith(t testing.TB, c *kfake.Cluster, code int16, named bool) {
	onProduce(c, func(req *kmsg.ProduceRequest) (kmsg.Response, error, bool) {
		res := req.ResponseKind().(*kmsg.ProduceResponse)
		refused := false
		for _, rt := range req.Topics {
			st := kmsg.NewProduceResponseTopic()
			st.Topic = rt.Topic
			for _, rp := range rt.Partitions {
				sp := kmsg.NewProduceResponseTopicPartition()
				sp.Partition = rp.Partition
				sp.ErrorCode = 6 // the others of this request: again
				sp.BaseOffset = -1
				for i, r := range records(t, rp.Records) {
					if !bytes.Contains(r, []byte("poison")) {
						continue
					}
					refused = true
					sp.ErrorCode = code
					if named {
						re := kmsg.NewProduceResponseTopicPartitionErrorRecord()
						re.RelativeOffset = int32(i)
						re.ErrorMessage = kmsg.StringPtr("poison")
						sp.ErrorRecords = append(sp.ErrorRecords, re)
					}
				}
				st.Partitions = append(st.Partitions, sp)
			}
			res.Topics = append(res.Topics, st)
		}
		return res, nil, refused
	})
}
