//go:build !linux

package devenv

import (
	"errors"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// setProcessAttributes can't bind the child's life to ours here: there is no death signal.
func setProcessAttributes(cmd *exec.Cmd, _ syscall.Signal) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
}

// children returns the processes whose parent is pid now. Where pgrep is missing it returns
// none: Postgres's processes then end by themselves a moment after their postmaster.
func children(pid int) []int {
	out, err := exec.Command("pgrep", "-P", strconv.Itoa(pid)).Output()
	if err != nil {
		return nil
	}
	var found []int
	for _, field := range strings.Fields(string(out)) {
		if child, err := strconv.Atoi(field); err == nil {
			found = append(found, child)
		}
	}
	return found
}

// ended says whether a process has ended.
func ended(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

// workingIn returns none: there is no portable way to ask for a working folder.
func workingIn([]string) []int { return nil }

// commandLine is for messages.
func commandLine(pid int) string {
	out, err := exec.Command("ps", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return "gone by now"
	}
	return strings.TrimSpace(string(out))
}
