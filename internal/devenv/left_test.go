package devenv

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// leftHas says whether the list of what is left names something.
func leftHas(what string) bool {
	return slices.ContainsFunc(Left(), func(s string) bool { return strings.Contains(s, what) })
}

func TestLeftNamesAFolder(t *testing.T) {
	f, err := NewFolder("")
	if err != nil {
		t.Fatal(err)
	}
	if !leftHas(f.Path()) {
		t.Errorf("the folder %s is there, and not in %q", f.Path(), Left())
	}
	if err := f.Remove(); err != nil {
		t.Fatal(err)
	}
	if leftHas(f.Path()) {
		t.Errorf("the folder %s was removed, and is in %q", f.Path(), Left())
	}
}

func TestLeftNamesAChild(t *testing.T) {
	p, err := StartProcess(exec.Command("/bin/sleep", "600"), filepath.Join(t.TempDir(), "log"), syscall.SIGKILL)
	if err != nil {
		t.Fatal(err)
	}
	name := "process " + strconv.Itoa(p.PID()) + " (/bin/sleep 600)"
	if !leftHas(name) {
		t.Errorf("%s runs, and is not in %q", name, Left())
	}
	if err := p.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	if leftHas(name) {
		t.Errorf("%s has ended, and is in %q", name, Left())
	}
}

// A process whose parent was killed is nobody's child any more. What it works in tells.
func TestLeftNamesAnOrphan(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("no way to ask for a process's working folder")
	}
	f, err := NewFolder("")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", "-c", "/bin/sleep 600 & echo $!")
	cmd.Dir = f.Path()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 20)
	n, err := out.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	_ = out.Close() // the orphan has it open too, so Wait would never see its end
	_ = cmd.Wait()  // the shell has said what there is to know
	pid, err := strconv.Atoi(strings.TrimSpace(string(buf[:n])))
	if err != nil {
		t.Fatal(err)
	}
	name := "process " + strconv.Itoa(pid) + " ("
	if !leftHas(name) {
		t.Errorf("%s runs, and is not in %q", name, Left())
	}
	killGroup(cmd.Process.Pid)
	if err := waitEnded([]int{pid}, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	if err := f.Remove(); err != nil {
		t.Fatal(err)
	}
	if leftHas(name) {
		t.Errorf("%s was killed, and is in %q", name, Left())
	}
}
