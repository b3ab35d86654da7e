package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/rs/zerolog"

	"github.com/cdc-relay/cdc-relay/internal/relay"
)

// Config is what a server needs.
type Config struct {
	// Listen is host:port; port 0 takes a free one.
	Listen string
	// Status is asked from Start on, by several goroutines at a time; it must not block.
	Status func() relay.Status
	Log    zerolog.Logger
	// Now is time.Now where it is nil.
	Now func() time.Time
}

// Server serves probes and metrics.
type Server struct {
	cfg     Config
	metrics *metrics
	http    *http.Server
	addr    net.Addr
	done    chan error // what Serve returned, once
}

// AddressError says that the address can't be bound.
type AddressError struct {
	Address string
	Cause   error
}

func (e *AddressError) Error() string {
	return fmt.Sprintf("listen for probes and metrics at %s: %v", e.Address, e.Cause)
}

func (e *AddressError) Unwrap() error { return e.Cause }

// Hint says what to do.
func (e *AddressError) Hint() string {
	if errors.Is(e.Cause, syscall.EADDRINUSE) {
		return "another process listens there, perhaps another relay: give this one an address of its own with --admin-listen (port 0 takes a free one)"
	}
	return "correct admin.listen"
}

// ExitCode is 2: configuration.
func (e *AddressError) ExitCode() int { return 2 }

// New makes a server. It opens nothing.
func New(cfg Config) *Server {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s := &Server{cfg: cfg, metrics: newMetrics(cfg.Status, cfg.Now), done: make(chan error, 1)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", s.livez)
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: 4, // a scraper that hangs must not pile up
		Timeout:             10 * time.Second,
	}))
	s.http = &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      20 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          stdlog.New(errorLog{cfg.Log}, "", 0),
	}
	return s
}

// Events are the callbacks that count, for the relay's configuration.
func (s *Server) Events() relay.Events { return s.metrics.events() }

// Start binds the address and serves until Shutdown. An address that can't be bound is an
// *AddressError. Called once.
func (s *Server) Start(ctx context.Context) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.cfg.Listen)
	if err != nil {
		return &AddressError{Address: s.cfg.Listen, Cause: cause(err)}
	}
	s.addr = l.Addr()
	go func() { s.done <- s.http.Serve(l) }()
	s.cfg.Log.Info().Stringer("address", s.addr).Msg("serving probes and metrics")
	return nil
}

// cause is the innermost reason, without the address that it repeats.
func cause(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

// Addr is where the server listens; nil before Start.
func (s *Server) Addr() net.Addr { return s.addr }

// Shutdown stops listening, lets requests finish until ctx ends, and then cuts them. Before
// Start it does nothing.
func (s *Server) Shutdown(ctx context.Context) error {
	if s.addr == nil {
		return nil
	}
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	if served := <-s.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	s.done <- http.ErrServerClosed // for a second call
	return err
}

// livez answers as long as the process can. A relay that waits, halts or stands by is alive:
// to start it anew wouldn't help.
func (s *Server) livez(w http.ResponseWriter, _ *http.Request) {
	text(w, http.StatusOK, "ok")
}

func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	st := s.cfg.Status()
	code := http.StatusOK
	if !st.Ready {
		code = http.StatusServiceUnavailable
	}
	if wantsJSON(r) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		// The prober has gone: there is nobody to tell.
		_ = json.NewEncoder(w).Encode(newStatus(st, s.cfg.Now()))
		return
	}
	if st.Ready {
		text(w, code, "ok")
		return
	}
	text(w, code, "not ready: "+string(st.Phase)+": "+st.Reason)
}

func wantsJSON(r *http.Request) bool {
	return r.URL.Query().Has("verbose") || strings.Contains(r.Header.Get("Accept"), "application/json")
}

func text(w http.ResponseWriter, code int, s string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = fmt.Fprintln(w, s) // the prober has gone: there is nobody to tell
}

// errorLog takes what net/http complains of, which is about the clients.
type errorLog struct{ log zerolog.Logger }

func (l errorLog) Write(p []byte) (int, error) {
	l.log.Debug().Str("side", "admin").Msg(strings.TrimSpace(string(p)))
	return len(p), nil
}
