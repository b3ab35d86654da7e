package lab

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Process is a relay that runs.
type Process struct {
	t    testing.TB
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended

	mu    sync.Mutex
	admin string // address, once it is known
	log   keptLog
	ready chan struct{} // closed when admin is known
}

// start runs the binary. Its log is printed, or put into the lab's folder, if the test fails.
func (l *Lab) start(bin string, env []string, args ...string) *Process {
	t := l.t
	t.Helper()
	p := &Process{t: t, cmd: exec.Command(bin, args...), done: make(chan struct{}), ready: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stdout = io.Discard
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go p.follow(stderr)
	path := ""
	if l.Logs != "" {
		path = filepath.Join(l.Logs, fmt.Sprintf("relay-%04d.log", l.lives))
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
		if t.Failed() {
			p.report(path)
		}
	})
	return p
}

// report writes the log to a file, or prints it where there is none.
func (p *Process) report(path string) {
	p.t.Helper()
	text := fmt.Sprintf("log of relay %d, which ended with %s:\n%s", p.PID(), p.cmd.ProcessState, p.Log())
	if path == "" {
		p.t.Log(text)
	} else if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		p.t.Errorf("keep the log of relay %d: %v", p.PID(), err)
	}
}

// follow keeps the log and finds the admin address in it.
func (p *Process) follow(r io.Reader) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var entry struct {
			Message, Address string
		}
		known := json.Unmarshal(lines.Bytes(), &entry) == nil && entry.Message == "serving probes and metrics"
		p.mu.Lock()
		p.log.add(lines.Bytes())
		if known && p.admin == "" {
			p.admin = entry.Address
			close(p.ready)
		}
		p.mu.Unlock()
	}
	_ = p.cmd.Wait()
	close(p.done)
}

// Log is what the relay has logged so far; of a long log the middle is left out.
func (p *Process) Log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// PID is its process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Ended says whether it has ended, and with which exit code; -1 after a signal.
func (p *Process) Ended() (code int, ended bool) {
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode(), true
	default:
		return 0, false
	}
}

// Kill ends it with SIGKILL, as a crash.
func (p *Process) Kill() {
	p.t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		p.t.Fatalf("kill -9 of the relay: %v", err)
	}
	<-p.done
}

// Signal sends a signal.
func (p *Process) Signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("%v to the relay: %v", s, err)
	}
}

// Stop ends it with SIGTERM and returns its exit code.
func (p *Process) Stop() int {
	p.t.Helper()
	p.Signal(syscall.SIGTERM)
	return p.Exit()
}

// Exit waits for its end and returns the exit code, -1 after a signal.
func (p *Process) Exit() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(time.Minute):
		_ = p.cmd.Process.Signal(syscall.SIGQUIT) // so that the log shows where it hangs
		<-p.done
		p.t.Fatal("the relay did not end within a minute")
	}
	return p.cmd.ProcessState.ExitCode()
}

// get asks the admin server.
func (p *Process) get(ctx context.Context, path string) (int, string, error) {
	select {
	case <-p.ready:
	case <-p.done:
		return 0, "", errors.New("the relay has ended")
	case <-ctx.Done():
		return 0, "", ctx.Err()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.admin+path, nil)
	if err != nil {
		return 0, "", err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return res.StatusCode, string(body), err
}

// Status is what a relay says of itself.
type Status struct {
	Ready          bool   `json:"ready"`
	Phase          string `json:"phase"`
	Reason         string `json:"reason"`
	StoredLSN      string `json:"stored_lsn"`
	InflightEvents int    `json:"inflight_events"`
}

// Status asks it how it is.
func (p *Process) Status(ctx context.Context) (Status, error) {
	code, body, err := p.get(ctx, "/readyz?verbose")
	if err != nil {
		return Status{}, err
	}
	var s Status
	if err := json.Unmarshal([]byte(body), &s); err != nil {
		return Status{}, fmt.Errorf("read the answer of /readyz: %w", err)
	}
	if s.Ready != (code == http.StatusOK) {
		return s, fmt.Errorf("/readyz answers %d and says ready: %v", code, s.Ready)
	}
	return s, nil
}

// WaitPhase waits until it is in a phase.
func (p *Process) WaitPhase(phase string) {
	p.t.Helper()
	var last string
	Until(p.t, "the phase "+phase, func(ctx context.Context) (bool, error) {
		if code, ended := p.Ended(); ended {
			return false, fmt.Errorf("the relay has ended with %d", code)
		}
		s, err := p.Status(ctx)
		last = fmt.Sprintf("%+v %v", s, err)
		return err == nil && s.Phase == phase, nil
	}, &last)
}

// WaitReady waits until it says that it is ready.
func (p *Process) WaitReady() {
	p.t.Helper()
	p.WaitHTTP("/readyz", http.StatusOK)
}

// WaitHTTP waits until a path of the admin server answers with a status.
func (p *Process) WaitHTTP(path string, status int) {
	p.t.Helper()
	var last string
	Until(p.t, fmt.Sprintf("%s to answer %d", path, status), func(ctx context.Context) (bool, error) {
		if code, ended := p.Ended(); ended {
			return false, fmt.Errorf("the relay has ended with %d", code)
		}
		code, body, err := p.get(ctx, path)
		last = fmt.Sprint(code, " ", body, " ", err)
		return err == nil && code == status, nil
	}, &last)
}

// Until polls a condition, for at most a minute. An error ends the test.
func Until(t testing.TB, what string, ok func(context.Context) (bool, error), last *string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		yes, err := ok(ctx)
		if yes {
			return
		}
		if err != nil {
			t.Fatalf("wait for %s: %v", what, err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			seen := ""
			if last != nil {
				seen = "; last seen: " + *last
			}
			t.Fatalf("waited a minute for %s%s", what, seen)
		}
	}
}

// UntilSQL polls until a query's single value, as text, is what is wanted.
func UntilSQL(t testing.TB, l *Lab, sql, want string) {
	t.Helper()
	var last string
	Until(t, fmt.Sprintf("%q to give %q", sql, want), func(context.Context) (bool, error) {
		v, err := l.Ask(sql)
		if last = v; err != nil {
			last = err.Error()
		}
		return err == nil && v == want, nil
	}, &last)
}
