package devenv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Process is a child that writes its output to a file. Its methods may be called from any
// goroutine.
type Process struct {
	cmd  *exec.Cmd
	log  string // path of the file that holds its output
	done chan struct{}
	// The exit is seen once, by the goroutine that started it; everybody else waits on done.
	err error // what Wait returned; valid after done is closed
}

// StartProcess starts cmd with its output appended to the file log. It gets a process
// group of its own, and deathSignal when this process dies, where the system can do that.
func StartProcess(cmd *exec.Cmd, log string, deathSignal syscall.Signal) (*Process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", cmd.Path, err)
	}
	defer out.Close() // the child has its own copy
	cmd.Stdout, cmd.Stderr = out, out
	setProcessAttributes(cmd, deathSignal)
	p := &Process{cmd: cmd, log: log, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// The death signal is sent when the thread that forked ends, not the process: this
		// thread is kept for as long as the child lives.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- fmt.Errorf("start %s: %w", cmd.Path, err)
			return
		}
		started <- nil
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// PID of the process, also after its end.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Alive says whether the process has not ended yet.
func (p *Process) Alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Signal sends sig to the process alone. A process that has ended is no error.
func (p *Process) Signal(sig syscall.Signal) error {
	err := p.cmd.Process.Signal(sig)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("send %s to %s (pid %d): %w", sig, p.cmd.Path, p.PID(), err)
	}
	return nil
}

// Wait returns when the process has ended, however it did, or with ctx's error.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the end of %s (pid %d): %w", p.cmd.Path, p.PID(), context.Cause(ctx))
	}
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// ExitCode is what an ended process returned, and -1 where a signal ended it.
func (p *Process) ExitCode() int {
	<-p.done
	return p.cmd.ProcessState.ExitCode()
}

// Tail is the end of what the process wrote, for an error message.
func (p *Process) Tail() string { return tail(p.log) }

// until polls ready every 20 ms until it returns nil. It gives up when the process ends,
// after limit, or with ctx; the error then holds the last lines of the log.
func (p *Process) until(ctx context.Context, limit time.Duration, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not ready after %s", limit))
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended at its start (%w); its last lines: %s", p.cmd.Path, p.err, tail(p.log))
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w (last answer: %w); its last lines: %s", p.cmd.Path, context.Cause(ctx), err, tail(p.log))
		case <-tick.C:
		}
	}
}

// tailBytes is how much of a log an error shows.
const tailBytes = 2000

// tail returns the end of a log file, for an error message.
func tail(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return "(no log)"
	}
	defer f.Close()
	if end, err := f.Seek(0, io.SeekEnd); err == nil {
		_, err = f.Seek(max(0, end-tailBytes), io.SeekStart)
		if err != nil {
			return "(no log)"
		}
	}
	b, err := io.ReadAll(f)
	if err != nil || len(b) == 0 {
		return "(no log)"
	}
	return "\n" + strings.TrimSpace(string(b))
}

// killGroup kills a process that leads its group, and what it started.
func killGroup(pid int) {
	_ = syscall.Kill(-pid, syscall.SIGKILL) // it may have ended
}

// waitEnded returns when none of the processes runs any more.
func waitEnded(pids []int, limit time.Duration) error {
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for _, pid := range pids {
		for !ended(pid) {
			select {
			case <-timeout.C:
				return fmt.Errorf("process %d still runs after %s", pid, limit)
			case <-tick.C:
			}
		}
	}
	return nil
}
