package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/internal/devenv/envtest"
)

// patience bounds every wait for a process.
const patience = time.Minute

// relayProcess is a relay that runs as a process of its own.
type relayProcess struct {
	t    *testing.T
	cmd  *exec.Cmd
	log  lines
	done chan struct{} // closed when it has ended
}

// lines collects what a process prints, and wakes who waits for more.
type lines struct {
	mu   sync.Mutex
	all  []string
	more chan struct{}
}

func (l *lines) read(r io.Reader) {
	for s := bufio.NewScanner(r); s.Scan(); {
		l.mu.Lock()
		l.all = append(l.all, s.Text())
		close(l.more)
		l.more = make(chan struct{})
		l.mu.Unlock()
	}
}

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.all, "\n")
}

// startRelay runs the command with a free admin port and JSON logs at the finest level.
func startRelay(t *testing.T, env []string, args ...string) *relayProcess {
	t.Helper()
	p := &relayProcess{t: t, done: make(chan struct{})}
	p.log.more = make(chan struct{})
	args = append([]string{"run", "--admin-listen", "127.0.0.1:0", "--log-level", "trace"}, args...)
	p.cmd = process(context.Background(), env, args...)
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		p.log.read(stderr)
		_ = p.cmd.Wait() // the exit code is in ProcessState
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it has ended, unless the test failed
		<-p.done
	})
	return p
}

// await returns the first line that contains text.
func (p *relayProcess) await(text string) string {
	p.t.Helper()
	deadline := time.After(patience)
	for seen := 0; ; {
		p.log.mu.Lock()
		fresh, more := p.log.all[seen:], p.log.more
		seen += len(fresh)
		p.log.mu.Unlock()
		for _, line := range fresh {
			if strings.Contains(line, text) {
				return line
			}
		}
		select {
		case <-more:
		case <-p.done:
			p.t.Fatalf("it ended before it said %q:\n%s", text, p.log.text())
		case <-deadline:
			p.t.Fatalf("it never said %q:\n%s", text, p.log.text())
		}
	}
}

// end waits for the process to end and returns its exit code.
func (p *relayProcess) end() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		p.t.Fatalf("it doesn't end:\n%s", p.log.text())
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *relayProcess) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// address is where it serves probes and metrics.
func (p *relayProcess) address() string {
	p.t.Helper()
	var line struct{ Address string }
	if err := json.Unmarshal([]byte(p.await(`"address"`)), &line); err != nil {
		p.t.Fatal(err)
	}
	return line.Address
}

// get asks the admin address.
func (p *relayProcess) get(address, path string) (int, string) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close() // read to its end
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// until polls the admin address until its answer passes.
func (p *relayProcess) until(address, path string, ok func(code int, body string) bool) string {
	p.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for {
		code, body := p.get(address, path)
		if ok(code, body) {
			return body
		}
		select {
		case <-tick.C:
		case <-p.done:
			p.t.Fatalf("it ended while %s said %d %s:\n%s", path, code, body, p.log.text())
		case <-deadline:
			p.t.Fatalf("%s still says %d %s:\n%s", path, code, body, p.log.text())
		}
	}
}

// source is a database that setup has prepared.
type source struct {
	t    *testing.T
	url  string // of a superuser
	conn *pgx.Conn
}

func newSource(t *testing.T) *source {
	t.Helper()
	s := &source{t: t, url: envtest.Database(t)}
	got := runProcess(t, []string{"DATABASE_URL=" + s.url}, "setup")
	if got.code != 0 {
		t.Fatalf("setup: exit code %d, %s", got.code, got.err)
	}
	conn, err := pgx.Connect(t.Context(), s.url)
	if err != nil {
		t.Fatal(err)
	}
	s.conn = conn
	t.Cleanup(func() {
		if err := conn.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *source) exec(statement string, args ...any) {
	s.t.Helper()
	// Also in clean-ups, when the test's context has ended.
	if _, err := s.conn.Exec(context.WithoutCancel(s.t.Context()), statement, args...); err != nil {
		s.t.Fatalf("%s: %v", statement, err)
	}
}

// waitFor waits until a query says yes.
func waitFor(t *testing.T, s *source, query string) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for yes := false; ; {
		if err := s.conn.QueryRow(t.Context(), query).Scan(&yes); err != nil {
			t.Fatal(err)
		}
		if yes {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("never true: %s", query)
		}
	}
}

// as is the connection string for another user and password.
func (s *source) as(user, password string) string {
	u, err := url.Parse(s.url)
	if err != nil {
		s.t.Fatal(err)
	}
	u.User = url.UserPassword(user, password)
	if password == "" {
		u.User = url.User(user)
	}
	return u.String()
}

const insert = `insert into public.outbox_events (entity_id, event_type, payload) values ('A-1', 'order', '{"n": 1}')`

// execute runs statements on a connection of its own.
func execute(t *testing.T, url, statements string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context())) // the statements have ended
	if _, err := conn.PgConn().Exec(t.Context(), statements).ReadAll(); err != nil {
		t.Fatal(err)
	}
}
