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
