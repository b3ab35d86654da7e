package wal

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// Start begins to stream at start: transactions whose commit record lies at or behind it are
// sent, whole. It refuses 0 and what lies beyond the server's log. After an error that Postgres
// answered with, the connection can still be queried.
func (s *Stream) Start(ctx context.Context, start LSN) error {
	if err := s.begin(ctx, start); err != nil {
		return fmt.Errorf("start replication on slot %q at %s: %w", s.cfg.Slot, start, err)
	}
	s.cfg.Log.Info().Str("slot", s.cfg.Slot).Str("publication", s.cfg.Publication).Stringer("lsn", start).
		Stringer("flushed", s.system.Flushed).Msg("streaming")
	return nil
}

func (s *Stream) begin(ctx context.Context, start LSN) error {
	if err := s.check(ctx, start); err != nil {
		return err
	}
	refused, err := s.command(ctx, start)
	if err != nil {
		// Where the answer is missing, the connection is of no use.
		return errors.Join(serverError(err), s.Close())
	}
	if refused != nil {
		slot, err := s.Slot(ctx, s.cfg.Slot)
		if err != nil {
			slot = nil // the refusal matters more, and is what's said
		}
		return startError(s.cfg.Slot, slot, refused)
	}
	hijacked, err := s.conn.Hijack()
	if err != nil {
		return errors.Join(err, s.Close())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.Join(errors.New("stream is closed"), hijacked.Conn.Close())
	}
	if hijacked.TLSConfig != nil {
		s.dialed.deepen()
	}
	s.raw, s.start = hijacked.Conn, start
	return nil
}

func (s *Stream) check(ctx context.Context, start LSN) error {
	switch {
	case s.cfg.Slot == "" || s.cfg.Publication == "":
		return errors.New("slot and publication must be named")
	case s.raw != nil:
		return errors.New("stream has been started already")
	case start == 0:
		return errors.New("0/0 is no position: begin at the slot's confirmed position, or at the one stored")
	}
	if start > s.Received() { // the log may have grown since we asked
		if _, err := s.Identify(ctx); err != nil {
			return err
		}
		if start > s.Received() {
			return fmt.Errorf("%w, whose log ends at %s: is it the same server, and not restored from a backup?", ErrAhead, s.Received())
		}
	}
	// pgconn may have begun to read in the background; from here on nothing but us may read.
	return s.conn.SyncConn(ctx)
}

// command sends START_REPLICATION and returns what Postgres refused it with.
func (s *Stream) command(ctx context.Context, start LSN) (refused, err error) {
	s.conn.Frontend().SendQuery(&pgproto3.Query{String: "START_REPLICATION SLOT " + quoteIdentifier(s.cfg.Slot) +
		" LOGICAL " + start.String() + " (proto_version '1', publication_names " + PublicationNames(s.cfg.Publication) + ", messages 'true')"})
	if err := s.conn.Frontend().Flush(); err != nil {
		return nil, err
	}
	for {
		m, err := s.conn.ReceiveMessage(ctx)
		if err != nil {
			return nil, err
		}
		switch m := m.(type) {
		case *pgproto3.CopyBothResponse:
			return nil, nil
		case *pgproto3.ErrorResponse:
			refused = pgconn.ErrorResponseToPgError(m)
		case *pgproto3.ReadyForQuery:
			if refused == nil {
				return nil, errors.New("server answered nothing")
			}
			return refused, nil
		}
	}
}
