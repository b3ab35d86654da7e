package simulation

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// conn is the relay's end of a connection to a broker. What it writes goes to the broker at once;
// reads wait on channels and timers only, so that a bubble knows them as waiting.
type conn struct {
	life *life
	node *node
	tie  int // the order in which connections were made

	produces bool // it is for Produce requests

	mu       sync.Mutex
	in       []byte // answers that were not read yet
	out      []byte // the beginning of a request
	deadline time.Time
	more     chan struct{} // holds one token when in or gone changed
	gone     error         // why there is nothing more to read
	closed   bool          // by the relay

	queue []*request // that the broker has not answered, oldest first
}

// dial connects to the broker that listens at addr. It never waits and never fails: sarama holds
// a mutex while it connects, which no bubble knows as waiting. A broker that is down cuts the
// connection at its first request.
func (l *life) dial(_ context.Context, _, addr string) (net.Conn, error) {
	n := l.world.cluster.at(addr)
	c := &conn{life: l, node: n, more: make(chan struct{}, 1)}
	l.opened(c)
	return c, nil
}

func (c *conn) Read(p []byte) (int, error) {
	for {
		c.mu.Lock()
		n := copy(p, c.in)
		c.in = c.in[n:]
		gone, closed, deadline := c.gone, c.closed, c.deadline
		c.mu.Unlock()
		switch {
		case closed:
			return 0, net.ErrClosed
		case n > 0:
			return n, nil
		case gone != nil:
			return 0, gone
		}
		if err := c.await(deadline); err != nil {
			return 0, err
		}
	}
}

func (c *conn) await(deadline time.Time) error {
	var late <-chan time.Time
	if !deadline.IsZero() {
		t := time.NewTimer(time.Until(deadline))
		defer t.Stop()
		late = t.C
	}
	select {
	case <-c.more:
		return nil
	case <-late:
		return os.ErrDeadlineExceeded
	}
}

// Write takes requests. The question for the versions is answered at once, like the connection.
func (c *conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return 0, net.ErrClosed
	case c.gone != nil:
		return 0, syscall.EPIPE
	}
	c.out = append(c.out, p...)
	for len(c.out) >= 4 {
		size := int(binary.BigEndian.Uint32(c.out))
		if len(c.out) < 4+size {
			break
		}
		frame := c.out[4 : 4+size : 4+size]
		c.out = c.out[4+size:]
		r := parse(c, frame)
		if r.versions() {
			c.push(r.answerVersions())
			continue
		}
		c.produces = c.produces || len(r.batches) > 0
		c.queue = append(c.queue, r)
		if len(c.queue) == 1 {
			c.life.requested(r)
		}
	}
	return len(p), nil
}

// push lets the relay read b. c.mu is held.
func (c *conn) push(b []byte) {
	c.in = append(c.in, b...)
	c.signal()
}

func (c *conn) signal() {
	select {
	case c.more <- struct{}{}:
	default:
	}
}

// answer ends the oldest request with these bytes, and lets the next one be seen.
func (c *conn) answer(b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) == 0 {
		return // cut meanwhile
	}
	c.queue = c.queue[1:]
	c.push(b)
	if len(c.queue) > 0 {
		c.life.requested(c.queue[0])
	}
}

// cut ends the connection from the broker's side, after some last bytes.
func (c *conn) cut(last []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone == nil {
		c.in = append(c.in, last...)
		c.gone = io.EOF
	}
	c.queue = nil
	c.signal()
}

func (c *conn) isForProducing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.produces
}

// open says whether the relay still waits for answers.
func (c *conn) open() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.closed && c.gone == nil
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.mu.Lock()
	c.closed = true
	c.signal()
	c.mu.Unlock()
	return nil
}

func (c *conn) LocalAddr() net.Addr  { return &net.TCPAddr{} }
func (c *conn) RemoteAddr() net.Addr { return &net.TCPAddr{} }

func (c *conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// SetReadDeadline sets deadlines a little apart: of two that are over at the same instant, chance
// would decide which comes first.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t.Add(time.Duration(c.tie) * time.Microsecond)
	return nil
}

func (c *conn) SetWriteDeadline(time.Time) error { return nil }
