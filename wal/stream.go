package wal

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Stream is one replication connection. Its methods are called by one goroutine, one at a time,
// in this order: Open, then queries, then Start once, then Run once. Received, LastHeard and
// Close may be called by any goroutine at any time after Open.
type Stream struct {
	cfg    Config
	conn   *pgconn.PgConn // until Start
	feed   *handoff
	dialed *dialConn
	system System
	sender time.Duration // the server's wal_sender_timeout

	opened   time.Time
	received atomic.Uint64
	heard    atomic.Int64 // nanoseconds since opened

	mu     sync.Mutex
	raw    net.Conn // from Start on
	closed bool

	start LSN
}

// Open connects and asks who the server is. ctx bounds only that.
func Open(ctx context.Context, cfg Config) (*Stream, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	connCfg, feed, dialed := cfg.connConfig()
	conn, err := pgconn.ConnectConfig(ctx, connCfg)
	if err != nil {
		return nil, fmt.Errorf("open replication connection: %w", openError(err))
	}
	s := &Stream{cfg: cfg, conn: conn, feed: feed, dialed: dialed(), opened: time.Now()}
	if err := s.measure(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open replication connection: %w", err), s.Close())
	}
	if _, err := s.Identify(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open replication connection: %w", err), s.Close())
	}
	return s, nil
}

// System is what Identify read last.
func (s *Stream) System() System { return s.system }

// Received is the greatest position that the server has named: what has been stored can't lie
// beyond it.
func (s *Stream) Received() LSN { return LSN(s.received.Load()) }

// LastHeard is when bytes from the server were last taken from the connection. They may have
// waited there while this process was stopped.
func (s *Stream) LastHeard() time.Time { return s.opened.Add(time.Duration(s.heard.Load())) }

// Close drops the connection; a Run in progress fails. Only a Run that ends because its context
// did takes leave of the server first. A second call does nothing.
func (s *Stream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if s.raw != nil {
		return s.raw.Close()
	}
	// A farewell, but not at any price.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return s.conn.Close(ctx)
}

// named raises what Received returns.
func (s *Stream) named(l LSN) {
	if l > s.Received() {
		s.received.Store(uint64(l))
	}
}

func (s *Stream) notice(n *pgconn.PgError) { logNotice(s.cfg.Log, n) }
