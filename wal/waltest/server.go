package waltest

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// Server plays a Postgres that serves one script per connection, in the order in which they
// are made, and refuses those beyond.
type Server struct {
	t        testing.TB
	addr     string // "" in memory
	mu       sync.Mutex
	tls      *tls.Config
	scripts  []func(*Conn)
	sessions sync.WaitGroup
}

// Serve starts a server in memory. The test ends only when the scripts that were begun have.
func Serve(t testing.TB, scripts ...func(*Conn)) *Server {
	s := &Server{t: t, scripts: scripts}
	t.Cleanup(s.sessions.Wait)
	return s
}

// Listen starts a server on a TCP port.
func Listen(t testing.TB, scripts ...func(*Conn)) *Server {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{t: t, scripts: scripts, addr: l.Addr().String()}
	s.sessions.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // closed by the cleanup
			}
			if !s.begin(conn) {
				conn.Close()
			}
		}
	})
	t.Cleanup(func() {
		l.Close()
		s.sessions.Wait()
	})
	return s
}

// begin runs the next script on conn.
func (s *Server) begin(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.scripts) == 0 {
		return false
	}
	script := s.scripts[0]
	s.scripts = s.scripts[1:]
	secure := s.tls
	s.sessions.Go(func() { s.session(conn, secure, script) })
	return true
}

func (s *Server) session(conn net.Conn, secure *tls.Config, script func(*Conn)) {
	c := &Conn{t: s.t, net: conn}
	defer func() {
		c.net.Close()
		c.reader.Wait()
	}()
	if secure != nil {
		c.secure(secure)
	}
	c.backend = pgproto3.NewBackend(c.net, c.net)
	script(c)
}

// SetTLS has the server speak TLS on connections that are made from now on.
func (s *Server) SetTLS(cfg *tls.Config) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tls = cfg
}

// Wait returns when all scripts that were begun have ended.
func (s *Server) Wait() { s.sessions.Wait() }

// Config returns the settings of a client of this server.
func (s *Server) Config() *pgconn.Config {
	s.t.Helper()
	host := s.addr
	if host == "" {
		host = "memory:1"
	}
	cfg, err := pgconn.ParseConfig("postgres://relay:secret@" + host + "/app?sslmode=disable")
	if err != nil {
		s.t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tls != nil {
		cfg.TLSConfig = &tls.Config{InsecureSkipVerify: true} // the server is ours
	}
	if s.addr == "" {
		cfg.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
		cfg.DialFunc = func(context.Context, string, string) (net.Conn, error) {
			client, server := net.Pipe()
			if !s.begin(server) {
				return nil, syscall.ECONNREFUSED
			}
			return client, nil
		}
	}
	return cfg
}

// secure answers the client's request for TLS.
func (c *Conn) secure(cfg *tls.Config) {
	request := make([]byte, 8)
	if _, err := io.ReadFull(c.net, request); err != nil {
		c.fail("read TLS request: %v", err)
	}
	c.Write([]byte{'S'})
	c.net = tls.Server(c.net, cfg)
}
