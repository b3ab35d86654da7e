package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/cdc-relay/cdc-relay/internal/relay"
)

type exported = dto.MetricFamily

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// exposition is what a scraper gets.
func exposition(t *testing.T, g prometheus.Gatherer) string {
	t.Helper()
	rec := httptest.NewRecorder()
	promhttp.HandlerFor(g, promhttp.HandlerOpts{}).ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if rec.Code != http.StatusOK {
		t.Fatalf("scrape: %d %s", rec.Code, rec.Body)
	}
	return rec.Body.String()
}

// start runs a server on a free port.
func start(t *testing.T, status func() relay.Status) *Server {
	t.Helper()
	s := New(Config{Listen: "127.0.0.1:0", Status: status, Log: zerolog.Nop()})
	if err := s.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return s
}

// ask sends one request and returns status code, body and type.
func ask(t *testing.T, s *Server, method, path, accept string) (int, string, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.Addr().String()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b), resp.Header.Get("Content-Type")
}

func TestProbes(t *testing.T) {
	var st atomic.Pointer[relay.Status]
	st.Store(&relay.Status{Phase: relay.PhaseWaiting, Reason: "kafka:9092 refuses connections"})
	s := start(t, func() relay.Status { return *st.Load() })

	check := func(method, path string, code int, body string) {
		t.Helper()
		gotCode, got, _ := ask(t, s, method, path, "")
		if gotCode != code || got != body {
			t.Errorf("%s %s = %d %q, want %d %q", method, path, gotCode, got, code, body)
		}
	}
	check(http.MethodGet, "/livez", 200, "ok\n")
	check(http.MethodGet, "/readyz", 503, "not ready: waiting: kafka:9092 refuses connections\n")
	st.Store(&relay.Status{Phase: relay.PhaseHalted, Reason: "event 5 is too large"})
	check(http.MethodGet, "/livez", 200, "ok\n")
	check(http.MethodGet, "/readyz", 503, "not ready: halted: event 5 is too large\n")
	st.Store(&relay.Status{Phase: relay.PhaseStreaming, Ready: true})
	check(http.MethodGet, "/readyz", 200, "ok\n")
	check(http.MethodHead, "/readyz", 200, "")
	check(http.MethodPost, "/readyz", 405, "Method Not Allowed\n")
	check(http.MethodGet, "/", 404, "404 page not found\n")
}

func TestReadyInJSON(t *testing.T) {
	progress := time.Unix(1_700_000_000, 0).UTC()
	st := relay.Status{
		Phase: relay.PhaseHalted, Reason: "event 5 is too large", Slot: "s", Publication: "p",
		Confirmed: 0x1_0000_00AB, Stored: 0x1_0000_0000, Received: 0x1_0000_0200,
		InflightEvents: 3, InflightBytes: 300, Published: 12, LastProgress: progress,
	}
	s := start(t, func() relay.Status { return st })
	for _, how := range [][2]string{{"/readyz?verbose", ""}, {"/readyz", "application/json"}} {
		code, body, contentType := ask(t, s, http.MethodGet, how[0], how[1])
		if code != 503 || contentType != "application/json" {
			t.Errorf("%s: %d %s", how, code, contentType)
		}
		var got map[string]any
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatal(err)
		}
		for key, want := range map[string]any{
			"ready": false, "phase": "halted", "reason": "event 5 is too large", "slot": "s", "publication": "p",
			"confirmed_lsn": "1/AB", "stored_lsn": "1/0", "received_lsn": "1/200", "lag_bytes": 512.0,
			"inflight_events": 3.0, "inflight_bytes": 300.0, "events_published": 12.0,
			"oldest_unconfirmed_age_seconds": 0.0, "last_progress": "2023-11-14T22:13:20Z",
		} {
			if got[key] != want {
				t.Errorf("%s: %s = %v, want %v", how, key, got[key], want)
			}
		}
		if len(got) != 14 {
			t.Errorf("%s: %d fields", how, len(got))
		}
	}
}

func TestMetricsAreServed(t *testing.T) {
	s := start(t, func() relay.Status { return relay.Status{InflightEvents: 42} })
	s.Events().Published("orders", 3, time.Second)
	code, body, _ := ask(t, s, http.MethodGet, "/metrics", "")
	for _, want := range []string{`cdc_relay_events_published_total{topic="orders"} 3`, "cdc_relay_inflight_events 42", "go_goroutines "} {
		if code != 200 || !strings.Contains(body, want) {
			t.Errorf("%d, and %q isn't in\n%s", code, want, body)
		}
	}
}

func TestAddressInUse(t *testing.T) {
	first := start(t, func() relay.Status { return relay.Status{} })
	for listen, hint := range map[string]string{
		first.Addr().String(): "another process listens there",
		"203.0.113.1:9464":    "correct admin.listen",
	} {
		err := New(Config{Listen: listen, Status: func() relay.Status { return relay.Status{} }}).Start(context.Background())
		var ae *AddressError
		if !errors.As(err, &ae) {
			t.Fatalf("%s: got %v, want an *AddressError", listen, err)
		}
		if ae.ExitCode() != 2 || !strings.Contains(ae.Hint(), hint) || strings.Count(ae.Error(), listen) != 1 {
			t.Errorf("%s: exit code %d, %q, hint %q", listen, ae.ExitCode(), ae, ae.Hint())
		}
	}
}

func TestShutdown(t *testing.T) {
	held, release := make(chan struct{}), make(chan struct{})
	s := New(Config{Listen: "127.0.0.1:0", Log: zerolog.Nop(), Status: func() relay.Status {
		close(held)
		<-release
		return relay.Status{Ready: true}
	}})
	if err := s.Shutdown(context.Background()); err != nil {
		t.Errorf("before Start: %v", err)
	}
	if err := s.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	addr := s.Addr().String()
	answered := make(chan error, 1)
	go func() {
		resp, err := http.Get("http://" + addr + "/readyz") // the server is what is under test
		if err == nil {
			err = resp.Body.Close()
		}
		answered <- err
	}()
	<-held
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	// A request that hangs doesn't hold up the stop.
	if err := s.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want a cancellation", err)
	}
	if err := <-answered; err == nil {
		t.Error("the hanging request was answered")
	}
	close(release)
	if c, err := net.Dial("tcp", addr); err == nil {
		_ = c.Close()
		t.Error("it still listens")
	}
	if err := s.Shutdown(context.Background()); err != nil {
		t.Errorf("second call: %v", err)
	}
	http.DefaultClient.CloseIdleConnections()
}

// A client that sends nothing is cut, and whoever sends nonsense is logged below info.
func TestClientsCantHarm(t *testing.T) {
	var log bytes.Buffer
	s := New(Config{Log: zerolog.New(&log)})
	for name, d := range map[string]time.Duration{
		"header": s.http.ReadHeaderTimeout, "read": s.http.ReadTimeout, "write": s.http.WriteTimeout, "idle": s.http.IdleTimeout,
	} {
		if d <= 0 || d > time.Minute {
			t.Errorf("%s timeout = %s", name, d)
		}
	}
	s.http.ErrorLog.Print("http: nonsense")
	if got := log.String(); !strings.Contains(got, `"level":"debug"`) || !strings.Contains(got, "http: nonsense") {
		t.Errorf("got %q", got)
	}
}
