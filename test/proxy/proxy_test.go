package proxy

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo is a server that sends back what it gets.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c)
				_ = c.Close()
			}()
		}
	}()
	return l.Addr().String()
}

func start(t *testing.T) *Proxy {
	t.Helper()
	p, err := Listen(echo(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func dial(t *testing.T, p *Proxy) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// say writes s and reads its echo within d.
func say(c net.Conn, s string, d time.Duration) error {
	if _, err := io.WriteString(c, s); err != nil {
		return err
	}
	return hear(c, s, d)
}

func hear(c net.Conn, s string, d time.Duration) error {
	if err := c.SetReadDeadline(time.Now().Add(d)); err != nil {
		return err
	}
	b := make([]byte, len(s))
	if _, err := io.ReadFull(c, b); err != nil {
		return err
	}
	if string(b) != s {
		return errors.New("heard " + string(b))
	}
	return nil
}

// soon is enough for an echo on a busy machine; short is how long silence is listened to.
const soon, short = 20 * time.Second, 50 * time.Millisecond

func TestForwardAndCut(t *testing.T) {
	p := start(t)
	if n := p.Cut(); n != 0 || p.Open() != 0 {
		t.Errorf("cut %d connections, %d are open, and there was none", n, p.Open())
	}
	a, b := dial(t, p), dial(t, p)
	for _, c := range []net.Conn{a, b} {
		if err := say(c, "hello", soon); err != nil {
			t.Fatal(err)
		}
	}
	if open := p.Open(); open != 2 {
		t.Errorf("%d connections are open, want 2", open)
	}
	if n := p.Cut(); n != 2 {
		t.Errorf("cut %d connections, want 2", n)
	}
	if n := p.Cut(); n != 0 || p.Open() != 0 {
		t.Errorf("cut %d connections that were cut before, %d are open", n, p.Open())
	}
	for _, c := range []net.Conn{a, b} {
		if err := hear(c, "x", soon); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("a cut connection reads %v, want a reset", err)
		}
	}
	if err := say(dial(t, p), "again", soon); err != nil {
		t.Error(err)
	}
	if p.Accepted() != 3 {
		t.Errorf("%d connections were counted", p.Accepted())
	}
}

func TestFreezeHoldsBytes(t *testing.T) {
	for name, directions := range map[string][]Direction{"both": nil, "up": {Up}, "down": {Down}} {
		t.Run(name, func(t *testing.T) {
			p := start(t)
			c := dial(t, p)
			if err := say(c, "before", soon); err != nil {
				t.Fatal(err)
			}
			p.Freeze(directions...)
			if err := say(c, "during", short); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("a frozen connection reads %v", err)
			}
			if err := say(dial(t, p), "during", short); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("a new connection while frozen reads %v", err)
			}
			p.Thaw(directions...)
			if err := hear(c, "during", soon); err != nil {
				t.Fatalf("what was held: %v", err)
			}
			if err := say(c, "after", soon); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestFrozenConnectionsCanBeCut(t *testing.T) {
	p := start(t)
	c := dial(t, p)
	if err := say(c, "before", soon); err != nil {
		t.Fatal(err)
	}
	if n := p.Freeze(); n != 1 {
		t.Errorf("%d connections are frozen, want 1", n)
	}
	if err := say(c, "held", short); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	p.Cut()
	if err := hear(c, "held", soon); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("a cut connection reads %v", err)
	}
}

func TestRefuse(t *testing.T) {
	p := start(t)
	open := dial(t, p)
	if err := say(open, "before", soon); err != nil {
		t.Fatal(err)
	}
	for range 2 { // twice is no error
		if err := p.Refuse(true); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := net.Dial("tcp", p.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a new connection: %v, want refused", err)
	}
	if err := say(open, "still", soon); err != nil {
		t.Errorf("an open connection: %v", err)
	}
	addr := p.Addr()
	if err := p.Refuse(false); err != nil {
		t.Fatal(err)
	}
	if p.Addr() != addr {
		t.Error("the address changed")
	}
	if err := say(dial(t, p), "again", soon); err != nil {
		t.Error(err)
	}
}

func TestTargetIsDown(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	p, err := Listen(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		return // it was reset before the dial was done
	}
	defer c.Close()
	if err := hear(c, "x", soon); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection reads %v", err)
	}
}

func TestEndsArePassedOn(t *testing.T) {
	p := start(t)
	c := dial(t, p)
	if _, err := io.WriteString(c, "last words"); err != nil {
		t.Fatal(err)
	}
	// The server sees our end, says what it still has to say, and ends too.
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if err := hear(c, "last words", soon); err != nil {
		t.Fatal(err)
	}
	if err := hear(c, "more", soon); !errors.Is(err, io.EOF) {
		t.Errorf("the client reads %v, want the end", err)
	}
}
