package wal

import (
	"encoding/binary"
	"io"
	"net"

	"github.com/jackc/pgx/v5/pgproto3"
)

const (
	// handoffSize is one send buffer of the server (PQ_SEND_BUFFER_SIZE in pqcomm.c).
	handoffSize = 8 << 10
	// underTLSSize takes several TLS records with one read.
	underTLSSize = 64 << 10
	// recordMax is more than a TLS record can have (RFC 8446 section 5.2, and its header).
	recordMax = 18 << 10
	// messageHeader is the letter and the length of a protocol message.
	messageHeader = 5
)

// handoff gives pgconn the server's bytes one message at a time. So when pgconn has read the
// answer to START_REPLICATION, none of the stream lies in a buffer of pgconn's, and what follows
// can be read without it.
type handoff struct {
	src  io.Reader
	buf  []byte
	r, w int
	left int // bytes of the message that pgconn is in the middle of
}

// build is a pgconn.BuildFrontendFunc.
func (h *handoff) build(r io.Reader, w io.Writer) *pgproto3.Frontend {
	*h = handoff{src: r, buf: make([]byte, handoffSize)}
	return pgproto3.NewFrontend(h, w)
}

func (h *handoff) Read(p []byte) (int, error) {
	for h.left == 0 {
		if head := h.buf[h.r:h.w]; len(head) >= messageHeader {
			// A length that can't be is pgconn's to refuse: it gets the header and no more.
			h.left = max(messageHeader, 1+int(int32(binary.BigEndian.Uint32(head[1:]))))
		} else if err := h.fill(); err != nil {
			return 0, err
		}
	}
	if h.r == h.w {
		if err := h.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p[:min(len(p), h.left)], h.buf[h.r:h.w])
	h.r += n
	h.left -= n
	return n, nil
}

func (h *handoff) fill() error {
	h.w = copy(h.buf, h.buf[h.r:h.w])
	h.r = 0
	n, err := h.src.Read(h.buf[h.w:])
	h.w += n
	if n > 0 {
		return nil // an error comes again with the next read
	}
	return err
}

// rest is what has been read of the stream and not given to pgconn.
func (h *handoff) rest() []byte { return h.buf[h.r:h.w] }

// dialConn is the network connection, beneath TLS where there is TLS. TLS asks for little at a
// time, so once deepen was called it is served from a buffer.
type dialConn struct {
	net.Conn
	*gatherer
	buf    []byte
	r, w   int
	filled bool // the last read from the network filled what it was given
}

func newDialConn(conn net.Conn) *dialConn { return &dialConn{Conn: conn, gatherer: newGatherer(conn)} }

// deepen begins to buffer. Nobody else may be reading.
func (c *dialConn) deepen() { c.buf = make([]byte, underTLSSize) }

func (c *dialConn) Read(p []byte) (int, error) {
	if c.buf == nil {
		return c.network(p)
	}
	if c.r == c.w {
		n, err := c.network(c.buf)
		c.r, c.w = 0, n
		if n == 0 {
			return 0, err
		}
	}
	n := copy(p, c.buf[c.r:c.w])
	c.r += n
	return n, nil
}

func (c *dialConn) network(p []byte) (int, error) {
	n, err, done := c.gatherer.read(p)
	if !done {
		n, err = c.Conn.Read(p)
	}
	c.filled = n == len(p)
	return n, err
}

// more tells whether another read is certain not to block, since a whole record is here.
func (c *dialConn) more() bool { return c.w-c.r >= recordMax }

// drained tells whether another read is likely to block: the last took all that there was.
func (c *dialConn) drained() bool { return c.r == c.w && !c.filled }
