package waltest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/cdc-relay/cdc-relay/wal"
)

// patience is how long a script waits for the client before it fails the test.
const patience = time.Minute

// Conn is the server's end of one connection. A step that doesn't find what it expects fails
// the test and ends the script.
type Conn struct {
	t       testing.TB
	net     net.Conn
	backend *pgproto3.Backend

	reader sync.WaitGroup
	said   chan said // what the client says from the start of the stream on
	back   *said     // taken from there and not yet looked at
}

// said is a message of the client, or the error that ended reading.
type said struct {
	msg any // Status, or the pgproto3 message
	err error
}

// Status is a standby status update as the client sent it.
type Status struct {
	Write, Flush, Apply wal.LSN
	Reply               bool      // asks for a keepalive
	At                  time.Time // when it arrived
}

func (c *Conn) fail(format string, args ...any) {
	c.t.Errorf("scripted server: "+format, args...)
	runtime.Goexit()
}

// Source is what a server knows about itself.
type Source struct {
	System        wal.System
	SenderTimeout time.Duration
	Slots         []wal.SlotInfo
	// Answer answers queries that the rest of Source doesn't. May be nil.
	Answer func(sql string) (rows [][]string, ok bool)
}

// Start accepts the client and answers its queries up to START_REPLICATION, begins the stream,
// and returns that command.
func (c *Conn) Start(src Source) (command string) {
	command = c.Until(src, "START_REPLICATION")
	c.CopyBoth()
	return command
}

// Until accepts the client and answers its queries until one begins with prefix.
func (c *Conn) Until(src Source, prefix string) (sql string) {
	c.Accept()
	return c.Answer(src, prefix)
}

// Accept takes the client's startup message, lets it in, and returns the parameters.
func (c *Conn) Accept() map[string]string {
	m, err := c.backend.ReceiveStartupMessage()
	if err != nil {
		c.fail("startup: %v", err)
	}
	startup, ok := m.(*pgproto3.StartupMessage)
	if !ok {
		c.fail("startup: got %T", m)
	}
	c.send(&pgproto3.AuthenticationOk{}, &pgproto3.BackendKeyData{ProcessID: 4711, SecretKey: []byte{1, 2, 3, 4}}, ready)
	return startup.Parameters
}

var ready = &pgproto3.ReadyForQuery{TxStatus: 'I'}

// Deny takes the client's startup message and turns it away.
func (c *Conn) Deny(code, message string) {
	if _, err := c.backend.ReceiveStartupMessage(); err != nil {
		c.fail("startup: %v", err)
	}
	c.Error("FATAL", code, message)
}

// Answer answers queries until one begins with prefix, which it returns unanswered.
func (c *Conn) Answer(src Source, prefix string) (sql string) {
	for {
		sql, open := c.query()
		switch {
		case !open:
			c.fail("wait for %q: the client is gone", prefix)
		case strings.HasPrefix(sql, prefix):
			return sql
		}
		c.answer(src, sql)
	}
}

// AnswerAll answers queries until the client leaves.
func (c *Conn) AnswerAll(src Source) {
	for {
		sql, open := c.query()
		if !open {
			return
		}
		c.answer(src, sql)
	}
}

func (c *Conn) query() (sql string, open bool) {
	m, err := c.backend.Receive()
	if err != nil {
		return "", false
	}
	switch m := m.(type) {
	case *pgproto3.Query:
		return m.String, true
	case *pgproto3.Terminate:
		return "", false
	default:
		c.fail("wait for a query: got %T", m)
		return "", false
	}
}

func (c *Conn) answer(src Source, sql string) {
	rows, ok := src.answer(sql)
	if !ok {
		c.fail("no answer to %q", sql)
	}
	c.Rows(rows)
}

func (s *Source) answer(sql string) ([][]string, bool) {
	if s.Answer != nil {
		if rows, ok := s.Answer(sql); ok {
			return rows, true
		}
	}
	switch {
	case strings.Contains(sql, "wal_sender_timeout"):
		return [][]string{{fmt.Sprint(s.System.Version), fmt.Sprint(s.SenderTimeout.Milliseconds())}}, true
	case sql == "IDENTIFY_SYSTEM":
		return [][]string{{s.System.ID, fmt.Sprint(s.System.Timeline), s.System.Flushed.String(), s.System.Database}}, true
	case strings.Contains(sql, "pg_replication_slots"):
		return s.slots(sql), true
	}
	return nil, false
}

func (s *Source) slots(sql string) (rows [][]string) {
	yes := map[bool]string{true: "t", false: "f"}
	for _, i := range s.Slots {
		if !strings.HasSuffix(sql, "'"+i.Name+"'") {
			continue
		}
		row := []string{
			i.Name, i.Plugin, i.Type, i.Database, yes[i.Temporary], yes[i.TwoPhase], yes[i.Active],
			fmt.Sprint(i.ActivePID), i.Restart.String(), i.Confirmed.String(), i.WALStatus,
		}
		if s.System.Version >= 170000 {
			row = append(row, i.Invalidation, yes[i.Failover], yes[i.Synced])
		}
		rows = append(rows, row)
	}
	return rows
}

// Rows answers a query.
func (c *Conn) Rows(rows [][]string) {
	columns := &pgproto3.RowDescription{}
	if len(rows) > 0 {
		for range rows[0] {
			columns.Fields = append(columns.Fields, pgproto3.FieldDescription{Name: []byte("c"), DataTypeOID: 25})
		}
	}
	msgs := []pgproto3.BackendMessage{columns}
	for _, row := range rows {
		values := make([][]byte, len(row))
		for i, v := range row {
			values[i] = []byte(v)
		}
		msgs = append(msgs, &pgproto3.DataRow{Values: values})
	}
	c.send(append(msgs, &pgproto3.CommandComplete{CommandTag: []byte("SELECT")}, ready)...)
}

// Refuse answers a query with an error, after which the client may send another.
func (c *Conn) Refuse(code, message string) {
	c.send(&pgproto3.ErrorResponse{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: code, Message: message}, ready)
}

// CopyBoth answers START_REPLICATION, by one write with the first messages of the stream. From
// here on the client is listened to in the background.
func (c *Conn) CopyBoth(first ...[]byte) {
	msgs, err := (&pgproto3.CopyBothResponse{}).Encode(nil)
	if err != nil {
		c.fail("encode: %v", err)
	}
	c.Write(append(msgs, CopyData(first...)...))
	c.said = make(chan said, 1<<16)
	c.reader.Go(c.listen)
}

func (c *Conn) listen() {
	defer close(c.said)
	for {
		m, err := c.backend.Receive()
		switch m := m.(type) {
		case *pgproto3.CopyData:
			st, ok := parseStatus(m.Data)
			if !ok {
				err = fmt.Errorf("%d bytes that are no status", len(m.Data))
				break
			}
			st.At = time.Now()
			c.said <- said{msg: st}
		case nil:
		default:
			c.said <- said{msg: m}
		}
		if err != nil {
			c.said <- said{err: err}
			return
		}
	}
}

func parseStatus(b []byte) (Status, bool) {
	if len(b) != 34 || b[0] != 'r' {
		return Status{}, false
	}
	lsn := func(i int) wal.LSN { return wal.LSN(binary.BigEndian.Uint64(b[i:])) }
	return Status{Write: lsn(1), Flush: lsn(9), Apply: lsn(17), Reply: b[33] == 1}, true
}

func (c *Conn) next(want string) said {
	if s := c.back; s != nil {
		c.back = nil
		return *s
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case s, ok := <-c.said:
		if !ok {
			s.err = errors.New("the client is gone")
		}
		return s
	case <-timer.C:
		c.fail("wait for %s: nothing came for %s", want, patience)
		panic("unreachable")
	}
}

func (c *Conn) send(msgs ...pgproto3.BackendMessage) {
	for _, m := range msgs {
		c.backend.Send(m)
	}
	if err := c.backend.Flush(); err != nil {
		c.fail("send %T: %v", msgs[0], err)
	}
}
