package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

var built struct {
	once sync.Once
	dir  string
	err  error
}

// Binary builds the relay, once per test binary, and returns its path. TestMain removes it with
// Cleanup.
func Binary(t testing.TB) string {
	t.Helper()
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "cdc-relay-lab"); built.err != nil {
			return
		}
		out, err := exec.Command("go", "build", "-o", filepath.Join(built.dir, "cdc-relay"), "github.com/cdc-relay/cdc-relay/cmd/cdc-relay").CombinedOutput()
		if err != nil {
			built.err = fmt.Errorf("build the relay: %w\n%s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return filepath.Join(built.dir, "cdc-relay")
}

// Cleanup removes the binary. It is a check for envtest.Main.
func Cleanup() error {
	if built.dir == "" {
		return nil
	}
	return errors.Join(built.err, os.RemoveAll(built.dir))
}
