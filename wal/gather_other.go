//go:build !linux

package wal

import "net"

// gatherer does nothing here: SO_RCVLOWAT doesn't hold back wake-ups on every system.
type gatherer struct{}

func newGatherer(net.Conn) *gatherer { return new(gatherer) }

func (*gatherer) gather() {}

func (*gatherer) relax() {}

func (*gatherer) read([]byte) (n int, err error, done bool) { return 0, nil, false }
