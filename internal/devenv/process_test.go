package devenv

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

func shell(t *testing.T, script string) *Process {
	t.Helper()
	p, err := StartProcess(exec.Command("/bin/sh", "-c", script), filepath.Join(t.TempDir(), "log"), syscall.SIGKILL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { killGroup(p.PID()); <-p.Done() })
	return p
}

func TestProcess(t *testing.T) {
	p := shell(t, "echo out; echo err >&2; exit 7")
	if err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p.Alive() || p.ExitCode() != 7 {
		t.Errorf("alive %v, exit code %d", p.Alive(), p.ExitCode())
	}
	if got := p.Tail(); got != "\nout\nerr" {
		t.Errorf("it wrote %q", got)
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("a signal to an ended process: %v", err)
	}

	p = shell(t, "exec /bin/sleep 1000")
	if group, err := syscall.Getpgid(p.PID()); err != nil || group != p.PID() {
		t.Errorf("its process group is %d, %v: Ctrl-C would reach it", group, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := p.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) || !p.Alive() {
		t.Errorf("alive %v, %v", p.Alive(), err)
	}
	if err := p.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(t.Context()); err != nil || p.ExitCode() != -1 {
		t.Errorf("exit code %d, %v", p.ExitCode(), err)
	}

	if _, err := StartProcess(exec.Command("/nonexistent/program"), filepath.Join(t.TempDir(), "log"), 0); err == nil {
		t.Error("a program that isn't there was started")
	}
}

func TestTailOfALongLog(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	write(t, log, "first\n"+strings.Repeat("x", 3*tailBytes)+"\nlast\n", 0o600)
	got := tail(log)
	if len(got) > tailBytes+1 || !strings.HasSuffix(got, "\nlast") || strings.Contains(got, "first") {
		t.Errorf("%d bytes: %.20q", len(got), got)
	}
}

func TestUntilSaysWhyItGaveUp(t *testing.T) {
	never := func(context.Context) error { return errors.New("not yet") }
	p := shell(t, "echo the cause; exit 1")
	if err := p.until(t.Context(), time.Minute, never); err == nil || !strings.Contains(err.Error(), "the cause") {
		t.Errorf("it ended: %v", err)
	}
	p = shell(t, "exec /bin/sleep 1000")
	if err := p.until(t.Context(), 50*time.Millisecond, never); err == nil || !strings.Contains(err.Error(), "not yet") {
		t.Errorf("it took too long: %v", err)
	}
	stop := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	if err := p.until(ctx, time.Minute, never); !errors.Is(err, stop) {
		t.Errorf("cancelled: %v", err)
	}
}

// ownerEnv makes the test binary an owner of servers that waits to be killed.
const ownerEnv = "DEVENV_TEST_OWNER"

// TestServersEndWithTheirOwner: after SIGKILL, which leaves it no time to close them.
func TestServersEndWithTheirOwner(t *testing.T) {
	if os.Getenv(ownerEnv) != "" {
		owner(t)
		return
	}
	if testing.Short() {
		t.Skip("starts servers")
	}
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has a signal for the death of the parent")
	}
	tmp := openFolder(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestServersEndWithTheirOwner$", "-test.v")
	cmd.Env = append(os.Environ(), ownerEnv+"=1", "TMPDIR="+tmp)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	var pids []int
	ready := false
	for lines := bufio.NewScanner(out); !ready && lines.Scan(); {
		var pid int
		if n, _ := fmt.Sscanf(lines.Text(), "server %d", &pid); n == 1 {
			pids = append(append(pids, pid), children(pid)...)
		}
		ready = lines.Text() == "ready"
	}
	if !ready || len(pids) < 3 {
		t.Fatalf("the owner started %v", pids)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := waitEnded(pids, 30*time.Second); err != nil {
		t.Fatal(err)
	}
	// What it left goes with the next start.
	locks, _ := filepath.Glob(filepath.Join(tmp, "*", lockName))
	if len(locks) == 0 {
		t.Fatal("the owner had no folder")
	}
	for _, lock := range locks {
		if err := os.Chtimes(lock, time.Unix(0, 0), time.Unix(0, 0)); err != nil {
			t.Fatal(err)
		}
	}
	sweep(tmp)
	if left := names(t, tmp); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func owner(t *testing.T) {
	p, err := StartPostgres(t.Context(), PostgresOptions{Settings: map[string]string{"fsync": "off"}})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("server %d\n", p.PID())
	k, err := StartKafka(t.Context(), KafkaOptions{})
	if err == nil {
		fmt.Printf("server %d\n", k.PID())
	} else if !errors.Is(err, ErrNoKafka) {
		t.Fatal(err)
	}
	runtime.GC() // what nobody refers to is gone
	fmt.Println("ready")
	never := make(chan os.Signal, 1)
	signal.Notify(never, syscall.SIGUSR1)
	<-never
}

// TestNothingIsLeft: after a life with crashes, in the temporary folder or as a process.
func TestNothingIsLeft(t *testing.T) {
	if testing.Short() {
		t.Skip("starts servers")
	}
	tmp := openFolder(t)
	t.Setenv("TMPDIR", tmp)
	p, err := StartPostgres(t.Context(), PostgresOptions{Settings: map[string]string{"fsync": "off"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(processesIn(t, tmp)) == 0 && runtime.GOOS == "linux" {
		t.Error("the check for processes finds none")
	}
	k, err := StartKafka(t.Context(), KafkaOptions{})
	if err != nil && !errors.Is(err, ErrNoKafka) {
		t.Fatal(err)
	}
	if k != nil {
		if err := errors.Join(k.Kill(), k.Close(), k.Close()); err != nil {
			t.Error(err)
		}
	}
	if err := errors.Join(p.Kill(), p.Close(), p.Close()); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := StartPostgres(ctx, PostgresOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled start: %v", err)
	}
	if _, err := StartPostgres(t.Context(), PostgresOptions{Settings: map[string]string{"shared_buffers": "much"}}); err == nil || !strings.Contains(err.Error(), "shared_buffers") {
		t.Errorf("a start with a bad setting: %v", err)
	}
	if left := names(t, tmp); len(left) != 0 {
		t.Errorf("left in the temporary folder: %v", left)
	}
	if left := processesIn(t, tmp); len(left) != 0 {
		t.Errorf("left running: %v", left)
	}
}
