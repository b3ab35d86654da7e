package devenv

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

func setProcessAttributes(cmd *exec.Cmd, deathSignal syscall.Signal) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	cmd.SysProcAttr.Pdeathsig = deathSignal
}

// children returns the processes whose parent is pid now. The children of Postgres lead
// sessions of their own, so no process group names them.
func children(pid int) []int {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well-formed
	var found []int
	for _, path := range stats {
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			continue
		}
		if _, parent, ok := stat(child); ok && parent == pid {
			found = append(found, child)
		}
	}
	return found
}

// ended says whether a process has ended. One that nobody has waited for yet still has an
// entry, as a zombie, but nothing else.
func ended(pid int) bool {
	state, _, ok := stat(pid)
	return !ok || state == "Z" || state == "X"
}

// stat returns the state and the parent of a process from /proc (proc_pid_stat(5)), and
// false where it has ended.
func stat(pid int) (state string, parent int, ok bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", 0, false
	}
	// pid (name) state ppid ...; the name may hold anything, also brackets.
	end := bytes.LastIndexByte(b, ')')
	fields := strings.Fields(string(b[end+1:]))
	if end < 0 || len(fields) < 2 {
		return "", 0, false
	}
	parent, err = strconv.Atoi(fields[1])
	return fields[0], parent, err == nil
}

// workingIn returns the processes whose working folder is one of the folders or below one. The
// children of a Postgres that was killed work in its data folder.
func workingIn(folders []string) []int {
	links, _ := filepath.Glob("/proc/[0-9]*/cwd") // the pattern is well-formed
	var found []int
	for _, link := range links {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link)))
		if err != nil {
			continue
		}
		dir, err := os.Readlink(link) // fails for other users' processes, and for zombies
		if err == nil && within(strings.TrimSuffix(dir, " (deleted)"), folders) {
			found = append(found, pid)
		}
	}
	return found
}

// commandLine is for messages.
func commandLine(pid int) string {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return "gone by now"
	}
	return strings.TrimSpace(strings.ReplaceAll(string(b), "\x00", " "))
}
