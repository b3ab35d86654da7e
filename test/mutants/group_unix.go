//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// stopGroup makes the end of the command's context end also what go test started: the test's own
// binary, which would go on otherwise.
func stopGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
