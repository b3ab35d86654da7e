package devenv

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestFoldersWithoutOwnerAreSwept(t *testing.T) {
	tmp := openFolder(t)
	t.Setenv("TMPDIR", tmp)
	make := func(age time.Duration, owned bool) string {
		f, err := NewFolder("")
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(f.Path(), "data", "file"), "x", 0o600)
		at := time.Now().Add(-age)
		if err := os.Chtimes(filepath.Join(f.Path(), lockName), at, at); err != nil {
			t.Fatal(err)
		}
		if owned {
			t.Cleanup(func() { _ = f.Remove() })
		} else if err := f.lock.Close(); err != nil { // as the end of its owner does
			t.Fatal(err)
		}
		return f.Path()
	}
	owned, dead, young := make(time.Hour, true), make(time.Hour, false), make(0, false)
	f, err := NewFolder("")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{owned: true, dead: false, young: true, f.Path(): true} {
		if exists(path) != want {
			t.Errorf("%s exists: %v, want %v", path, !want, want)
		}
	}
	if err := f.Remove(); err != nil {
		t.Fatal(err)
	}
	if exists(f.Path()) {
		t.Error("a removed folder is still there")
	}
}

func TestFolderBelowAnother(t *testing.T) {
	parent := t.TempDir()
	f, err := NewFolder(parent)
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Dir(f.Path()) != parent {
		t.Errorf("%s is not in %s", f.Path(), parent)
	}
	info, err := os.Stat(f.Path())
	if err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("mode %v, %v: another user can't enter", info.Mode(), err)
	}
	if err := f.Remove(); err != nil {
		t.Fatal(err)
	}
	if left := names(t, parent); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// TestPrivateTemporaryFolder: root's servers run as another user, who could not enter.
func TestPrivateTemporaryFolder(t *testing.T) {
	private := filepath.Join(openFolder(t), "private")
	if err := os.Mkdir(private, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", private)
	want := private
	if os.Getuid() == 0 {
		want = "/tmp"
	}
	if got, err := temporary(); err != nil || got != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}

func TestPassable(t *testing.T) {
	open := openFolder(t)
	closed := filepath.Join(open, "closed")
	inside := filepath.Join(closed, "inside")
	if err := os.MkdirAll(inside, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(open, "link")
	if err := os.Symlink(inside, link); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{open: true, closed: false, inside: false, link: false, filepath.Join(open, "none"): false} {
		if passable(path) != want {
			t.Errorf("passable(%s) is %v", path, !want)
		}
	}
}

func TestFreePortsAreFree(t *testing.T) {
	var ports []int
	for range 20 {
		port, err := freePort()
		if err != nil {
			t.Fatal(err)
		}
		if port < portFrom || port >= portTo {
			t.Errorf("port %d is in the range of outgoing connections", port)
		}
		ports = append(ports, port)
	}
	slices.Sort(ports)
	if len(slices.Compact(ports)) < 10 {
		t.Errorf("processes that start at the same time would get the same ports: %v", ports)
	}
}
