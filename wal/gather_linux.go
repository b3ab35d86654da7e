package wal

import (
	"errors"
	"io"
	"net"
	"syscall"
)

// lowWater is for how little nobody is woken while gathering.
const lowWater = 32 << 10

// gatherer lets data gather in a TCP socket. Go waits for all sockets of a process in one
// place, so without it every packet wakes the process, even while nobody waits for one.
//
// Measured with Postgres 15 over loopback on two busy cores, one million rows of 300 bytes in
// transactions of ten, CPU seconds of the reader, kernel included: 5.7 to 7.5 without pauses,
// 3.3 to 4.6 with them (pacer), 2.0 to 2.7 with this too.
type gatherer struct {
	raw syscall.RawConn // nil where it can't be done
	low bool            // the low-water mark is set

	// The calls on the socket, made once so that they need no allocation, and what
	// goes in and out of them.
	try  func(fd uintptr) bool
	mark func(fd uintptr)
	p    []byte
	n    int
	err  error
}

func newGatherer(conn net.Conn) *gatherer {
	g := new(gatherer)
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return g
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return g
	}
	g.raw = raw
	g.try = func(fd uintptr) bool {
		g.n, g.err = syscall.Read(int(fd), g.p)
		return !errors.Is(g.err, syscall.EINTR)
	}
	g.mark = func(fd uintptr) {
		g.err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVLOWAT, g.n)
	}
	return g
}

// gather begins. It lasts until a read finds nothing, or until relax.
func (g *gatherer) gather() {
	if g.raw != nil && !g.low {
		g.low = g.setMark(lowWater)
	}
}

// relax wakes readers for a single byte again.
func (g *gatherer) relax() {
	if g.low {
		g.low = !g.setMark(1)
	}
}

func (g *gatherer) setMark(n int) bool {
	g.n = n
	return g.raw.Control(g.mark) == nil && g.err == nil
}

// read takes what has gathered. It says false where that is nothing; then a reader may wait
// for the first byte.
func (g *gatherer) read(p []byte) (n int, err error, done bool) {
	if !g.low {
		return 0, nil, false
	}
	g.p = p
	err = g.raw.Read(g.try)
	n, g.p = g.n, nil
	switch {
	case err != nil: // the deadline has passed, or the connection is closed
		return 0, err, true
	case errors.Is(g.err, syscall.EAGAIN):
		g.relax()
		return 0, nil, false
	case g.err != nil:
		return 0, g.err, true
	case n == 0:
		return 0, io.EOF, true
	}
	return n, nil, true
}
