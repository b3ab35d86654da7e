package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

var (
	copyDone  = []byte{'c', 0, 0, 0, 4}
	terminate = []byte{'X', 0, 0, 0, 4}
)

// stop takes leave: a last status with what is stored by now, the end of our side of the
// stream, and then what the server still has to say. Its CommandComplete proves that it has
// read the status.
func (r *runner) stop() error {
	if err := r.confirm(); err != nil {
		return err
	}
	now := time.Now()
	budget := r.s.cfg.drain()
	if err := r.s.raw.SetDeadline(now.Add(budget)); err != nil {
		return fmt.Errorf("%w: set deadline: %w", ErrNotDrained, err)
	}
	r.encode(now, false)
	if _, err := r.s.raw.Write(append(r.msg[:], copyDone...)); err != nil {
		return fmt.Errorf("%w: send last status: %w", ErrNotDrained, err)
	}
	err := r.rc.discard()
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("%w within %s: it may still be sending a large transaction; %s was the last status", ErrNotDrained, budget, r.conf)
	case err != nil:
		return fmt.Errorf("%w: %w", ErrNotDrained, serverError(err))
	}
	// All is said: a farewell that doesn't arrive changes nothing.
	_, _ = r.s.raw.Write(terminate)
	return nil
}

// discard reads on and throws away, without holding any message whole, until the server says
// that the command is complete.
func (r *receiver) discard() error {
	r.b.Frames = r.b.Frames[:0]
	skip := 0
	for {
		rest := r.b.slab[r.r:r.w]
		n := min(skip, len(rest))
		skip -= n
		rest = rest[n:]
		r.r += n
		if skip == 0 && len(rest) >= messageHeader {
			size := 1 + int(binary.BigEndian.Uint32(rest[1:]))
			switch {
			case size < messageHeader || size > messageMax:
				return fmt.Errorf("replication stream is broken: message %q claims %d bytes", rest[:1], size-1)
			case rest[0] == 'C':
				return nil
			case rest[0] != 'E':
				skip = size
				continue
			case len(rest) >= size:
				var m pgproto3.ErrorResponse
				if err := m.Decode(rest[messageHeader:size]); err != nil {
					return fmt.Errorf("replication stream is broken: error message: %w", err)
				}
				return pgconn.ErrorResponseToPgError(&m)
			case size > len(r.b.slab):
				return fmt.Errorf("replication stream is broken: error message of %d bytes", size)
			}
		}
		r.w = copy(r.b.slab, rest)
		r.r = 0
		if _, err := r.read(); err != nil {
			return err
		}
	}
}
