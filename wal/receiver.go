package wal

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// messageMax is the greatest protocol message that Postgres can build (MaxAllocSize).
const messageMax = 1<<30 - 1

// receiver reads the stream straight into slabs and finds the frames in place. Only a message
// that is cut off by the end of a slab is copied, to the beginning of the next. It has no
// goroutine and knows no time.
type receiver struct {
	src  io.Reader
	pool *pool

	b    *Batch // being filled, never nil
	r, w int    // of b.slab: up to where it is parsed, and read
	need int    // size of the message at r as far as it is known

	named    LSN  // greatest position that the server has named
	reply    bool // a keepalive asked for a status
	idleEnd  LSN  // position of the keepalive that was the last frame, 0 where data was
	notices  func(*pgconn.PgError)
	complete bool // the last read took all that there was
}

// newReceiver begins with what was already read.
func newReceiver(src io.Reader, rest []byte, named LSN, notices func(*pgconn.PgError)) *receiver {
	p := newPool()
	r := &receiver{src: src, pool: p, b: p.get(0), named: named, need: messageHeader, notices: notices, complete: true}
	r.w = copy(r.b.slab, rest)
	return r
}

// read reads once, into the rest of the slab.
func (r *receiver) read() (int, error) {
	space := r.b.slab[r.w:]
	n, err := r.src.Read(space)
	r.w += n
	r.complete = n < len(space)
	return n, err
}

// parse finds the frames in what was read. An error is the server's last word: what the
// batch holds came before it.
func (r *receiver) parse() error {
	for {
		rest := r.b.slab[r.r:r.w]
		r.need = messageHeader
		if len(rest) < messageHeader {
			return nil
		}
		size := int(binary.BigEndian.Uint32(rest[1:]))
		if size < 4 || size > messageMax {
			return fmt.Errorf("replication stream is broken: message %q claims %d bytes", rest[:1], size)
		}
		r.need = 1 + size
		if len(rest) < r.need {
			return nil
		}
		r.r += r.need
		body := rest[messageHeader:r.need:r.need]
		var err error
		if rest[0] == 'd' {
			err = r.frame(body)
		} else {
			err = r.other(rest[0], body)
		}
		if err != nil {
			return err
		}
	}
}

func (r *receiver) frame(payload []byte) error {
	f, reply, err := ParseFrame(payload)
	if err != nil {
		return err
	}
	r.named = max(r.named, f.End)
	if f.Data != nil {
		r.idleEnd = 0
	} else {
		r.reply = r.reply || reply
		if r.idleEnd != 0 && f.End <= r.idleEnd {
			return nil // says nothing that the frame before it didn't say
		}
		r.idleEnd = f.End
	}
	r.b.Frames = append(r.b.Frames, f)
	return nil
}

// missingNotice is the warning that the server steps over a publication.
type missingNotice struct{ *pgconn.PgError }

// other handles what is not CopyData. body must not be kept.
func (r *receiver) other(kind byte, body []byte) error {
	switch kind {
	case 'E':
		var m pgproto3.ErrorResponse
		if err := m.Decode(body); err != nil {
			return fmt.Errorf("replication stream is broken: error message: %w", err)
		}
		return pgconn.ErrorResponseToPgError(&m)
	case 'N':
		var m pgproto3.NoticeResponse
		if err := m.Decode(body); err != nil {
			return fmt.Errorf("replication stream is broken: notice: %w", err)
		}
		notice := pgconn.ErrorResponseToPgError((*pgproto3.ErrorResponse)(&m))
		if notice.Code == stateNotPrerequisite {
			return &missingNotice{notice}
		}
		r.notices(notice)
		return nil
	case 'C', 'c':
		return errServerEnded
	case 'S', 'A': // a setting was reloaded; a notification
		return nil
	default:
		return fmt.Errorf("replication stream is broken: unexpected message %q of %d bytes", kind, len(body))
	}
}

// take returns the frames since the last call as a batch, nil where there are none, and makes
// room for the next read.
func (r *receiver) take() *Batch {
	var full *Batch
	switch {
	case len(r.b.Frames) > 0:
		full = r.b
	case r.need <= len(r.b.slab):
		if r.r > 0 { // a large message in many reads must not be moved for each
			r.move(r.b)
		}
		return nil
	default: // only a message that doesn't fit
		defer r.b.Release()
	}
	r.move(r.pool.get(r.need))
	return full
}

// move goes on in b, with what is not parsed.
func (r *receiver) move(b *Batch) {
	r.w = copy(b.slab, r.b.slab[r.r:r.w])
	r.b, r.r = b, 0
}

// full tells whether the slab has no room for the rest of the message that it ends in.
func (r *receiver) full() bool { return r.r+r.need > len(r.b.slab) || r.w == len(r.b.slab) }
