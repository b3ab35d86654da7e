package devenv

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// segmentOf returns the id of a server's System V shared memory segment.
func segmentOf(t *testing.T, p *Postgres) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(p.data, "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(strings.Split(string(b), "\n")[sharedMemoryLine-1])[1]
}

// segmentExists looks for a segment in Linux's list; elsewhere it finds none.
func segmentExists(t *testing.T, id string) bool {
	t.Helper()
	b, err := os.ReadFile("/proc/sysvipc/shm")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[1] == id {
			return true
		}
	}
	return false
}

// openFolder is a temporary folder that also another user can enter.
func openFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// names lists what is in a folder.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// processesIn lists the processes whose command line names a folder; none where there is no
// /proc.
func processesIn(t *testing.T, dir string) []string {
	t.Helper()
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	var all []string
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(b), dir) {
			all = append(all, strings.ReplaceAll(string(b), "\x00", " "))
		}
	}
	return all
}

func write(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}
