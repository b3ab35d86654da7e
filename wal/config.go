package wal

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/rs/zerolog"
)

const (
	// silenceMin is three status intervals without an answer.
	silenceMin = 30 * time.Second
	// silenceMargin is added to the half of wal_sender_timeout.
	silenceMargin = 10 * time.Second
	// statusMax bounds how long the server learns nothing about a position that was stored.
	statusMax = 10 * time.Second
	// replyGap spaces the answers to keepalives: a server that waits for a position asks again
	// as soon as it is answered, hundreds of thousands of times in a few seconds.
	replyGap = 100 * time.Millisecond
	// drainMin is how long a stop waits for the server at the least.
	drainMin = 2 * time.Second
)

// Config says which stream to open. Slot and Publication are needed by Start only.
type Config struct {
	// Conn comes from pgconn.ParseConfig or from pgx. It is copied; parameters that the stream
	// depends on (PinStartup) override those in it.
	Conn        *pgconn.Config
	Slot        string
	Publication string
	Log         zerolog.Logger
	// Silence is how long nothing may be heard from the server while reading, before the
	// connection counts as dead. Time in which the consumer takes nothing doesn't count. The
	// default is half the server's wal_sender_timeout and 10 s, and at least 30 s.
	Silence time.Duration
	// StatusInterval is the time between two statuses. The default is a sixth of the server's
	// wal_sender_timeout and at most 10 s.
	StatusInterval time.Duration
	// Drain is asked at a stop how long the server may take to confirm the end of the stream.
	// Less than 2 s, and nil, mean 2 s.
	Drain func() time.Duration
}

func (c Config) validate() error {
	if c.Conn == nil {
		return errors.New("open replication connection: no connection settings")
	}
	return nil
}

// silence waits longer than a healthy server can be silent: while it decodes a large transaction
// of other tables it looks at our statuses only when half its timeout has passed
// (WalSndUpdateProgress in walsender.c). A shorter time would cut it off for ever.
func (c Config) silence(senderTimeout time.Duration) time.Duration {
	if c.Silence > 0 {
		return c.Silence
	}
	return max(silenceMin, senderTimeout/2+silenceMargin)
}

// drain is the time that a stop may take.
func (c Config) drain() time.Duration {
	if c.Drain == nil {
		return drainMin
	}
	return max(drainMin, c.Drain())
}

// statusInterval gives the server three chances to hear from us in the half of its timeout
// after which it asks.
func (c Config) statusInterval(senderTimeout time.Duration) time.Duration {
	switch {
	case c.StatusInterval > 0:
		return c.StatusInterval
	case senderTimeout <= 0: // switched off
		return statusMax
	}
	return min(statusMax, max(senderTimeout/6, time.Millisecond))
}

// connConfig returns the settings to connect with. The handoff and the *dialConn that it leads
// to are those of the connection that is made last, so of the one that is kept.
func (c Config) connConfig() (cfg *pgconn.Config, h *handoff, dialed func() *dialConn) {
	cfg = c.Conn.Copy()
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = "cdc-relay"
	}
	PinStartup(cfg.RuntimeParams)
	h = new(handoff)
	cfg.BuildFrontend = h.build
	var last *dialConn
	dial := cfg.DialFunc
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		last = newDialConn(conn)
		return last, nil
	}
	log := c.Log
	cfg.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		logNotice(log, (*pgconn.PgError)(n))
	}
	return cfg, h, func() *dialConn { return last }
}

func logNotice(log zerolog.Logger, n *pgconn.PgError) {
	log.Warn().Str("severity", n.Severity).Str("sqlstate", n.Code).Str("detail", n.Detail).Msg(n.Message)
}
