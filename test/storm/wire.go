package storm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// fate is what happens to one produce request on the wire.
type fate uint8

const (
	spared     fate = iota
	cutBefore       // half of the request arrives: nothing is appended
	cutAfter        // the request arrives, the connection is cut in place of the answer
	halfAnswer      // half of the answer is sent, then the connection is cut
	hang            // the request arrives, the answer never leaves; the client gives up
	delay           // the answer comes late
)

// lateBy is how much a delayed answer is late: longer than a batch takes, shorter than the
// client's patience.
const lateBy = 100 * time.Millisecond

// wire is the network between clients and a kfake cluster. It sees whole requests and
// answers, and does to the produce requests among them what was armed.
type wire struct {
	rules rules

	mu    sync.Mutex
	armed []armed
	doors map[string]*door // by address
}

// armed is a fate that waits for a request: for the next one with this key.
type armed struct {
	fate fate
	key  kmsg.Key
	done func() // called once when it struck
}

// door is one broker's listening address. While it is shut, the address answers nobody.
type door struct {
	mu    sync.Mutex
	shut  bool
	conns map[*conn]struct{}
}

var errCut = errors.New("cut by the storm")

func newWire() *wire { return &wire{doors: make(map[string]*door)} }

// listen is for kfake.ListenFn.
func (w *wire) listen(network, address string) (net.Listener, error) {
	ln, err := (&net.ListenConfig{}).Listen(context.Background(), network, address)
	if err != nil {
		return nil, err
	}
	return &listener{ln, w, w.door(ln.Addr().String())}, nil
}

func (w *wire) door(address string) *door {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.doors[address]
	if d == nil {
		d = &door{conns: make(map[*conn]struct{})}
		w.doors[address] = d
	}
	return d
}

// arm makes f the fate of the next request with that key which finds no other armed before it.
func (w *wire) arm(f fate, key kmsg.Key, done func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = append(w.armed, armed{f, key, done})
}

// disarm forgets what has not struck.
func (w *wire) disarm() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = nil
}

// draw returns the fate of a request.
func (w *wire) draw(key kmsg.Key) fate {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, a := range w.armed {
		if a.key == key {
			w.armed = append(w.armed[:i:i], w.armed[i+1:]...)
			a.done()
			return a.fate
		}
	}
	return spared
}

// close shuts a door and cuts all connections that went through it.
func (d *door) close() {
	d.mu.Lock()
	d.shut = true
	cs := d.conns
	d.conns = make(map[*conn]struct{})
	d.mu.Unlock()
	for c := range cs {
		c.cut()
	}
}

func (d *door) open() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shut = false
}

// enter registers a connection; false: the door is shut.
func (d *door) enter(c *conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.shut {
		d.conns[c] = struct{}{}
	}
	return !d.shut
}

func (d *door) leave(c *conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.conns, c)
}

type listener struct {
	net.Listener
	wire *wire
	door *door
}

// Accept gives kfake the next connection. Behind a shut door the client is reset at once, as
// where nothing listens.
func (l *listener) Accept() (net.Conn, error) {
	for {
		in, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: in, wire: l.wire, door: l.door, gone: make(chan struct{})}
		if l.door.enter(c) {
			return c, nil
		}
		c.cut()
	}
}

// conn is kfake's side of a connection. kfake reads it from one goroutine and writes each
// answer with one Write, in the order of the requests.
type conn struct {
	net.Conn
	wire *wire
	door *door

	frame []byte // what is left of the request that was read

	mu      sync.Mutex
	waiting []request // for their answers, oldest first
	once    sync.Once
	gone    chan struct{} // closed when the connection is
}

// Read hands kfake one whole request after the other.
func (c *conn) Read(p []byte) (int, error) {
	if len(c.frame) == 0 {
		if err := c.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, c.frame)
	c.frame = c.frame[n:]
	return n, nil
}

// request is what is remembered of one until it is answered.
type request struct {
	fate    fate
	version int16
	batches map[place]batch // of a produce request
}

// next reads a request and draws its fate.
func (c *conn) next() error {
	var head [8]byte // size, key, version
	if _, err := io.ReadFull(c.Conn, head[:]); err != nil {
		return err
	}
	size := int(binary.BigEndian.Uint32(head[:]))
	if size < 4 || size > 100<<20 {
		return fmt.Errorf("a request of %d bytes", size)
	}
	f := c.wire.draw(kmsg.Key(int16(binary.BigEndian.Uint16(head[4:]))))
	frame := make([]byte, 4+size)
	n := copy(frame, head[:])
	if f == cutBefore {
		// Whether the other half arrives makes no difference to the broker, but to the client.
		if _, err := io.ReadFull(c.Conn, frame[n:n+(size-4)/2]); err != nil {
			return err
		}
		c.cut()
		return errCut
	}
	if _, err := io.ReadFull(c.Conn, frame[n:]); err != nil {
		return err
	}
	version, batches := c.wire.rules.request(frame[4:])
	c.mu.Lock()
	c.waiting = append(c.waiting, request{f, version, batches})
	c.mu.Unlock()
	c.frame = frame
	return nil
}

// Write sends one answer, or does to it what its request drew.
func (c *conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	var r request
	if len(c.waiting) > 0 {
		r = c.waiting[0]
		c.waiting = c.waiting[1:]
	}
	c.mu.Unlock()
	switch r.fate {
	case cutAfter:
		c.cut()
		return 0, errCut
	case halfAnswer:
		_, err := c.Conn.Write(p[:len(p)/2])
		_ = c.end(false) // not reset: a reset might overtake the half
		return 0, errors.Join(errCut, err)
	case hang:
		<-c.gone
		return 0, errCut
	case delay:
		late := time.NewTimer(lateBy)
		defer late.Stop()
		select {
		case <-late.C:
		case <-c.gone:
			return 0, errCut
		}
	}
	if len(r.batches) > 0 { // before the client can know
		c.wire.rules.answer(p, r.version, r.batches)
	}
	return c.Conn.Write(p)
}

// Close ends the connection in an orderly way.
func (c *conn) Close() error { return c.end(false) }

// cut resets the connection: what is on its way is lost.
func (c *conn) cut() { _ = c.end(true) } // it is gone either way

func (c *conn) end(reset bool) error {
	var err error
	c.once.Do(func() {
		close(c.gone)
		c.door.leave(c)
		if tcp, ok := c.Conn.(*net.TCPConn); ok && reset {
			err = tcp.SetLinger(0)
		}
		err = errors.Join(err, c.Conn.Close())
	})
	return err
}
