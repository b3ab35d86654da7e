package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/iotest"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

func backendMessages(t *testing.T, msgs ...pgproto3.BackendMessage) (b []byte) {
	t.Helper()
	for _, m := range msgs {
		var err error
		if b, err = m.Encode(b); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// pgconn gets exactly the messages up to the one that begins the stream, and what lies behind it
// is still there, however much came with one read.
func TestHandoff(t *testing.T) {
	big := make([]byte, 3*handoffSize)
	// Two bytes of what follows it are the last of the buffer.
	almost := make([]byte, handoffSize-2-messageHeader-2-4)
	before := backendMessages(t,
		&pgproto3.DataRow{Values: [][]byte{almost}}, &pgproto3.DataRow{Values: [][]byte{big}}, &pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")},
		&pgproto3.ReadyForQuery{TxStatus: 'I'}, &pgproto3.CopyBothResponse{})
	behind := bytes.Repeat(copyData(dataMessage(1, 1, 1, "row")), 100)
	all := append(bytes.Clone(before), behind...)
	for name, src := range map[string]io.Reader{
		"whole": bytes.NewReader(all), "bytes": iotest.OneByteReader(bytes.NewReader(all)), "halves": iotest.HalfReader(bytes.NewReader(all)),
		"with the error": iotest.DataErrReader(bytes.NewReader(all)),
	} {
		var h handoff
		frontend := h.build(src, io.Discard)
		for i, want := range []string{"*pgproto3.DataRow", "*pgproto3.DataRow", "*pgproto3.CommandComplete", "*pgproto3.ReadyForQuery", "*pgproto3.CopyBothResponse"} {
			m, err := frontend.Receive()
			if err != nil || typeName(m) != want {
				t.Fatalf("%s: got %T, %v; want %s", name, m, err, want)
			}
			if row, ok := m.(*pgproto3.DataRow); ok && len(row.Values[0]) != []int{len(almost), len(big)}[i] {
				t.Errorf("%s: %d bytes", name, len(row.Values[0]))
			}
			if n := frontend.ReadBufferLen(); n != 0 {
				t.Fatalf("%s: %d bytes are in pgconn's buffer after %s", name, n, want)
			}
		}
		rest, err := io.ReadAll(h.src)
		if err != nil {
			t.Fatal(err)
		}
		if got := append(bytes.Clone(h.rest()), rest...); !bytes.Equal(got, behind) {
			t.Errorf("%s: the stream has %d bytes, want %d", name, len(got), len(behind))
		}
	}
}

func typeName(m pgproto3.BackendMessage) string {
	switch m.(type) {
	case *pgproto3.DataRow:
		return "*pgproto3.DataRow"
	case *pgproto3.CommandComplete:
		return "*pgproto3.CommandComplete"
	case *pgproto3.ReadyForQuery:
		return "*pgproto3.ReadyForQuery"
	case *pgproto3.CopyBothResponse:
		return "*pgproto3.CopyBothResponse"
	}
	return "another"
}

func TestHandoffErrors(t *testing.T) {
	for name, in := range map[string][]byte{
		"nothing": {}, "half a header": {'Z', 0, 0}, "half a message": {'Z', 0, 0, 0, 5}, "impossible length": {'Z', 0, 0, 0, 1, 'I'},
		"negative length": {'Z', 0xff, 0xff, 0xff, 0xff, 'I'},
	} {
		var h handoff
		if m, err := h.build(bytes.NewReader(in), io.Discard).Receive(); err == nil {
			t.Errorf("%s: got %T", name, m)
		}
	}
}

// A deadline in the middle of a message loses nothing.
func TestHandoffTimeout(t *testing.T) {
	var h handoff
	in := backendMessages(t, &pgproto3.ReadyForQuery{TxStatus: 'I'})
	frontend := h.build(iotest.TimeoutReader(iotest.OneByteReader(bytes.NewReader(in))), io.Discard)
	if _, err := frontend.Receive(); !errors.Is(err, iotest.ErrTimeout) {
		t.Fatalf("error: %v", err)
	}
	if m, err := frontend.Receive(); err != nil || m.(*pgproto3.ReadyForQuery).TxStatus != 'I' {
		t.Errorf("got %T, %v", m, err)
	}
}

func pipe(t *testing.T) (client *dialConn, server net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		server.Close()
	})
	return newDialConn(conn), server
}

// Whatever the modes, the bytes come out as they went in.
func TestDialConnModes(t *testing.T) {
	client, server := pipe(t)
	const words = 200_000
	go func() {
		defer server.Close()
		var b []byte
		for i := range words {
			if b = binary.BigEndian.AppendUint32(b, uint32(i)); len(b) >= 100+i%9000 || i == words-1 {
				if _, err := server.Write(b); err != nil {
					return
				}
				b = b[:0]
			}
		}
	}()
	var got []byte
	buf := make([]byte, 5000)
	for i := 0; ; i++ {
		switch i {
		case 3, 20, 60, 90:
			client.gather()
		case 50:
			client.deepen()
		case 70:
			client.relax()
		}
		n, err := client.Read(buf[:1+i*37%len(buf)])
		got = append(got, buf[:n]...)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(got) != 4*words {
		t.Fatalf("%d bytes, want %d", len(got), 4*words)
	}
	for i := range words {
		if binary.BigEndian.Uint32(got[4*i:]) != uint32(i) {
			t.Fatalf("word %d is wrong", i)
		}
	}
}

// Whether more can be had without waiting is known from the last read, with and without a buffer.
func TestDialConnDrained(t *testing.T) {
	client, server := pipe(t)
	state := func(where string, drained, more bool) {
		t.Helper()
		if client.drained() != drained || client.more() != more {
			t.Errorf("%s: drained %v, more %v; want %v, %v", where, client.drained(), client.more(), drained, more)
		}
	}
	read := func(n int) {
		t.Helper()
		if _, err := io.ReadFull(client, make([]byte, n)); err != nil {
			t.Fatal(err)
		}
	}
	write := func(n int) {
		t.Helper()
		if _, err := server.Write(make([]byte, n)); err != nil {
			t.Fatal(err)
		}
	}
	state("at first", true, false)
	write(100)
	read(60)
	state("after a read that was filled", false, false)
	if n, err := client.Read(make([]byte, 60)); n != 40 || err != nil {
		t.Fatalf("read %d, %v", n, err)
	}
	state("after one that was not", true, false)
	client.deepen()
	write(recordMax + 10)
	read(1)
	for client.w < recordMax+10 { // it came in parts
		read(client.w - client.r + 1)
	}
	if client.r == 1 {
		state("with a record in the buffer", false, true)
	}
	read(client.w - client.r - 5)
	state("with a rest in the buffer", false, false)
	read(5)
	state("with an empty buffer", true, false)
}

// While gathering, a single byte still ends a read that waits for it, and deadlines and the
// other side's end are noticed.
func TestGatheringNeverHangs(t *testing.T) {
	client, server := pipe(t)
	buf := make([]byte, 100)
	client.gather()
	if err := client.SetReadDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := client.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read %d, %v", n, err)
	}
	client.gather()
	if n, err := client.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) { // which has passed
		t.Fatalf("read %d, %v", n, err)
	}
	if err := client.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	waiting := make(chan struct{})
	go func() {
		<-waiting
		<-time.After(20 * time.Millisecond) // mostly the reader waits by then, and it may wait longer
		if _, err := server.Write([]byte{7}); err != nil {
			t.Error(err)
		}
	}()
	client.gather()
	close(waiting)
	if n, err := client.Read(buf); n != 1 || err != nil || buf[0] != 7 {
		t.Fatalf("read %d, %v", n, err)
	}
	client.gather()
	server.Close()
	if n, err := client.Read(buf); err != io.EOF {
		t.Fatalf("read %d, %v", n, err)
	}
	client.Close()
	client.gather()
	if n, err := client.Read(buf); !errors.Is(err, net.ErrClosed) {
		t.Fatalf("read %d, %v", n, err)
	}
}

func TestGatheringAllocatesNothing(t *testing.T) {
	client, server := pipe(t)
	buf := make([]byte, 100)
	n := testing.AllocsPerRun(100, func() {
		client.gather()
		if _, err := server.Write(buf[:10]); err != nil {
			t.Error(err)
		}
		if _, err := io.ReadFull(client, buf[:10]); err != nil {
			t.Error(err)
		}
		client.relax()
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}
