package proxy

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
)

// Direction is one of the two ways that bytes take.
type Direction int

// The directions.
const (
	Up   Direction = iota // from the client to the target
	Down                  // from the target to the client
)

// Proxy forwards connections to a target. Its methods may be called from any goroutine.
type Proxy struct {
	target string
	addr   string
	gates  [2]gate
	wg     sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener // nil while connections are refused
	pairs    map[*pair]struct{}
	accepted int
	closed   bool
}

// pair is one forwarded connection. Its end is in done.
type pair struct {
	client, target net.Conn
	once           sync.Once
	done           chan struct{}
}

// Listen starts a proxy to the target, host:port, on a free port of 127.0.0.1.
func Listen(target string) (*Proxy, error) {
	p := &Proxy{target: target, pairs: map[*pair]struct{}{}}
	var err error
	for range 100 {
		p.addr = fmt.Sprintf("127.0.0.1:%d", portFrom+rand.IntN(portTo-portFrom))
		if err = p.listen(); err == nil {
			return p, nil
		}
	}
	return nil, err
}

// Ports are taken from below Linux's range for outgoing connections (from 32768), so that none of
// those takes the proxy's port while connections are refused.
const portFrom, portTo = 15000, 32000

func (p *Proxy) listen() error {
	l, err := net.Listen("tcp", p.addr)
	if err != nil {
		return fmt.Errorf("listen for the proxy to %s: %w", p.target, err)
	}
	p.listener, p.addr = l, l.Addr().String()
	p.wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return // closed
			}
			p.wg.Go(func() { p.forward(client) })
		}
	})
	return nil
}

// Addr is where the proxy listens, host:port. It stays the same.
func (p *Proxy) Addr() string { return p.addr }

// Accepted is the number of connections that were forwarded so far.
func (p *Proxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// forward joins a client with the target until both have ended, or one broke.
func (p *Proxy) forward(client net.Conn) {
	target, err := net.Dial("tcp", p.target)
	if err != nil {
		reset(client)
		return
	}
	c := &pair{client: client, target: target, done: make(chan struct{})}
	p.mu.Lock()
	if p.closed || p.listener == nil {
		p.mu.Unlock()
		c.end(reset)
		return
	}
	p.pairs[c] = struct{}{}
	p.accepted++
	p.mu.Unlock()

	var up sync.WaitGroup
	up.Go(func() { c.copy(target, client, &p.gates[Up]) })
	c.copy(client, target, &p.gates[Down])
	up.Wait()
	c.end(func(conn net.Conn) { _ = conn.Close() })
	p.mu.Lock()
	delete(p.pairs, c)
	p.mu.Unlock()
}

// copy moves bytes of one direction, and holds them while its gate is shut. It passes an
// end on; an error, such as a reset, ends both directions as one.
func (c *pair) copy(to, from net.Conn, g *gate) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		select {
		case <-g.wait():
		case <-c.done:
			return
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				c.end(reset)
				return
			}
		}
		if errors.Is(err, io.EOF) {
			_ = to.(*net.TCPConn).CloseWrite() // an error shows in the other direction
			return
		}
		if err != nil {
			c.end(reset)
			return
		}
	}
}

// end closes both sides, once. It says whether it was this call that did.
func (c *pair) end(how func(net.Conn)) (ended bool) {
	c.once.Do(func() {
		close(c.done)
		how(c.client)
		how(c.target)
		ended = true
	})
	return ended
}

// reset closes a connection with RST, so that the peer sees an error and not an end.
func reset(conn net.Conn) {
	_ = conn.(*net.TCPConn).SetLinger(0)
	_ = conn.Close()
}

// Cut resets all connections, and returns how many it has reset. New ones are forwarded again.
func (p *Proxy) Cut() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for c := range p.pairs {
		if c.end(reset) {
			n++
		}
	}
	return n
}

// Open is the number of connections that are forwarded now.
func (p *Proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for c := range p.pairs {
		select {
		case <-c.done:
		default:
			n++
		}
	}
	return n
}

// Freeze holds the bytes of the directions, of both where none is named: connections stay
// open, new ones too, and nothing arrives. It returns how many are open.
func (p *Proxy) Freeze(directions ...Direction) int {
	p.turn((*gate).shut, directions)
	return p.Open()
}

// Thaw lets the held bytes go on.
func (p *Proxy) Thaw(directions ...Direction) { p.turn((*gate).open, directions) }

func (p *Proxy) turn(do func(*gate), directions []Direction) {
	if len(directions) == 0 {
		directions = []Direction{Up, Down}
	}
	for _, d := range directions {
		do(&p.gates[d])
	}
}

// Refuse makes the system refuse new connections, or take them again. Those that are open
// stay: Cut them as well for an outage.
func (p *Proxy) Refuse(on bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || on == (p.listener == nil) {
		return nil
	}
	if !on {
		return p.listen()
	}
	err := p.listener.Close()
	p.listener = nil
	return err
}

// Close resets all connections and returns when all that the proxy started has ended.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	var err error
	if p.listener != nil {
		err = p.listener.Close()
		p.listener = nil
	}
	p.mu.Unlock()
	p.Cut()
	p.wg.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// gate is open or shut; the zero gate is open.
type gate struct {
	mu     sync.Mutex
	opened chan struct{} // closed when it opens; nil while it is open
}

// passing is what an open gate's wait returns.
var passing = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// wait returns a channel that is closed when the gate is open.
func (g *gate) wait() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened == nil {
		return passing
	}
	return g.opened
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened == nil {
		g.opened = make(chan struct{})
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened != nil {
		close(g.opened)
		g.opened = nil
	}
}
