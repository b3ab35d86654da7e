package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

// dialer opens connections. They are sarama's, on sockets that we keep a hand on: sarama
// holds a lock while it waits for a broker, so that its own Close waits as well.
type dialer struct {
	conf *sarama.Config
	dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// conn is one connection to a broker. Its owner is the only one to call anything but kill and
// throttle.
type conn struct {
	*sarama.Broker
	socket *socket

	mu    sync.Mutex
	until time.Time // when the broker wants requests again
}

// throttle notes that the broker wants no request for d, since a quota is used up (KIP-219).
// sarama would wait inside of the next request, with its lock held and deaf to everybody.
func (c *conn) throttle(d time.Duration) {
	if d <= 0 {
		return
	}
	c.mu.Lock()
	c.until = time.Now().Add(d)
	c.mu.Unlock()
}

// throttled returns how long the broker wants no request.
func (c *conn) throttled() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Until(c.until)
}

// rest waits until the broker wants requests, and says false when ctx ended first.
func (c *conn) rest(ctx context.Context) bool {
	d := c.throttled()
	return d <= 0 || pause(ctx, d)
}

// open connects and logs in. When ctx ends later on, the connection dies.
func (d *dialer) open(ctx context.Context, addr string) (*conn, error) {
	s := &socket{ctx: ctx, dial: d.dial, timeout: d.conf.Net.DialTimeout}
	conf := *d.conf
	conf.Net.Proxy.Enable = true
	conf.Net.Proxy.Dialer = s
	c := &conn{Broker: sarama.NewBroker(addr), socket: s}
	s.stop = context.AfterFunc(ctx, s.kill)
	if err := c.Broker.Open(&conf); err != nil {
		s.stop()
		return nil, fmt.Errorf("connect to Kafka broker %s: %w", addr, err)
	}
	ok, err := c.Connected() // waits for the connection
	if ok && err == nil && !s.dead() {
		return c, nil
	}
	c.close()
	if err == nil || errors.Is(err, net.ErrClosed) {
		err = s.cause() // sarama only met the closed socket
	}
	return nil, fmt.Errorf("connect to Kafka broker %s: %w", addr, err)
}

// close ends the connection. Requests that are not answered get an error by their
// callbacks before it returns.
func (c *conn) close() {
	c.socket.stop()
	c.socket.kill()
	// The socket is closed already: what sarama thinks of that tells nothing new.
	_ = c.Broker.Close()
}

var errSocketClosed = errors.New("connection closed")

// socket is sarama's dialer and the connection that it made. It closes itself at the first
// error: after one, sarama's stream can't be trusted, and a broker that didn't answer the
// first questions leaves sarama without the table of versions.
type socket struct {
	net.Conn
	ctx     context.Context
	dial    func(ctx context.Context, network, addr string) (net.Conn, error)
	timeout time.Duration
	stop    func() bool

	mu     sync.Mutex
	killed bool
	err    error
}

// Dial implements proxy.Dialer.
func (s *socket) Dial(network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(s.ctx, s.timeout)
	defer cancel()
	c, err := s.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.killed {
		_ = c.Close() // never used
		return nil, errSocketClosed
	}
	s.Conn = c
	return s, nil
}

func (s *socket) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if err != nil {
		s.fail(err)
	}
	return n, err
}

func (s *socket) Write(p []byte) (int, error) {
	n, err := s.Conn.Write(p)
	if err != nil {
		s.fail(err)
	}
	return n, err
}

func (s *socket) fail(err error) {
	s.mu.Lock()
	if s.err == nil {
		s.err = err
	}
	s.mu.Unlock()
	s.kill()
}

// kill closes the socket from any goroutine.
func (s *socket) kill() {
	s.mu.Lock()
	c := s.Conn
	done := s.killed
	s.killed = true
	s.mu.Unlock()
	if c != nil && !done {
		_ = c.Close() // whoever waits on it gets the error
	}
}

func (s *socket) dead() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.killed
}

func (s *socket) cause() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	return errSocketClosed
}
