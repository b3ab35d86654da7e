package waltest

import (
	"encoding/binary"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/cdc-relay/cdc-relay/wal"
)

// pgEpoch is where Postgres counts time from.
var pgEpoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// DataPayload is the payload of a CopyData message that carries a pgoutput message.
func DataPayload(lsn wal.LSN, at time.Time, message string) []byte {
	b := binary.BigEndian.AppendUint64([]byte{'w'}, uint64(lsn))
	b = binary.BigEndian.AppendUint64(b, uint64(lsn))
	b = binary.BigEndian.AppendUint64(b, uint64(at.Sub(pgEpoch).Microseconds()))
	return append(b, message...)
}

// KeepalivePayload is the payload of a CopyData message that carries a keepalive.
func KeepalivePayload(end wal.LSN, at time.Time, reply bool) []byte {
	b := binary.BigEndian.AppendUint64([]byte{'k'}, uint64(end))
	b = binary.BigEndian.AppendUint64(b, uint64(at.Sub(pgEpoch).Microseconds()))
	if reply {
		return append(b, 1)
	}
	return append(b, 0)
}

// CopyData wraps payloads as the messages of a stream.
func CopyData(payloads ...[]byte) (msgs []byte) {
	for _, p := range payloads {
		msgs = append(msgs, 'd')
		msgs = binary.BigEndian.AppendUint32(msgs, uint32(4+len(p)))
		msgs = append(msgs, p...)
	}
	return msgs
}

// Data sends a pgoutput message.
func (c *Conn) Data(lsn wal.LSN, message string) {
	c.Write(CopyData(DataPayload(lsn, time.Now(), message)))
}

// Keepalive sends a keepalive.
func (c *Conn) Keepalive(end wal.LSN, reply bool) {
	c.Write(CopyData(KeepalivePayload(end, time.Now(), reply)))
}

// Write sends bytes as they are, by one write.
func (c *Conn) Write(b []byte) {
	if _, err := c.net.Write(b); err != nil {
		c.fail("send %d bytes: %v", len(b), err)
	}
}

// TryWrite is Write for a client that may have gone.
func (c *Conn) TryWrite(b []byte) error {
	_, err := c.net.Write(b)
	return err
}

// Error ends the stream with an error, which a FATAL makes the end of the connection too.
func (c *Conn) Error(severity, code, message string) {
	c.send(&pgproto3.ErrorResponse{Severity: severity, SeverityUnlocalized: severity, Code: code, Message: message})
}

// Notice sends a notice.
func (c *Conn) Notice(severity, code, message string) {
	c.send(&pgproto3.NoticeResponse{Severity: severity, SeverityUnlocalized: severity, Code: code, Message: message})
}

// Shutdown ends the stream as a server does that stops cleanly.
func (c *Conn) Shutdown() { c.send(&pgproto3.CommandComplete{CommandTag: []byte("COPY 0")}) }

// Status waits for the client's next status.
func (c *Conn) Status() Status {
	s := c.next("a status")
	st, ok := s.msg.(Status)
	if !ok {
		c.fail("wait for a status: got %T, %v", s.msg, s.err)
	}
	return st
}

// Statuses returns the statuses that have come and were not returned before, up to whatever else
// the client said.
func (c *Conn) Statuses() (all []Status) {
	for c.back == nil {
		select {
		case s, ok := <-c.said:
			if !ok {
				return all
			}
			if st, ok := s.msg.(Status); ok {
				all = append(all, st)
			} else {
				c.back = &s
			}
		default:
			return all
		}
	}
	return all
}

// Leave waits for the client to end its side of the stream, and returns the last status that
// came before that; it doesn't answer.
func (c *Conn) Leave() (last Status) {
	for {
		s := c.next("the end of the stream")
		switch m := s.msg.(type) {
		case Status:
			last = m
		case *pgproto3.CopyDone:
			return last
		default:
			c.fail("wait for the end of the stream: got %T, %v", s.msg, s.err)
		}
	}
}

// Finish waits for the client to end its side of the stream, ends the server's, and sees the
// client off. It returns the last status.
func (c *Conn) Finish() (last Status) {
	last = c.Leave()
	c.Drained()
	if s := c.next("the farewell"); s.err != nil {
		c.fail("wait for the farewell: %v", s.err)
	} else if _, ok := s.msg.(*pgproto3.Terminate); !ok {
		c.fail("wait for the farewell: got %T", s.msg)
	}
	return last
}

// Drained ends the server's side of a stream that the client has left.
func (c *Conn) Drained() {
	c.send(&pgproto3.CopyDone{}, &pgproto3.CommandComplete{CommandTag: []byte("COPY 0")}, ready)
}

// Gone waits until the client has closed the connection, and returns the statuses that came
// before.
func (c *Conn) Gone() (all []Status) {
	for {
		s := c.next("the end of the connection")
		if s.err != nil {
			return all
		}
		if st, ok := s.msg.(Status); ok {
			all = append(all, st)
		}
	}
}

// Cut closes the connection without a word.
func (c *Conn) Cut() { c.net.Close() }
