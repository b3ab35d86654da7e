package devenv

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// nobody is the user that runs Postgres where we are root: the overflow uid of Linux, which
// every distribution lists as nobody.
const nobody = 65534

const (
	folderPrefix = "cdc-relay-env-"
	lockName     = "owner.lock"
)

// Folder is a temporary folder with an owner: an advisory lock on a file in it, which the
// system lets go when the owner dies. A folder without an owner is rubbish.
type Folder struct {
	path string
	lock *os.File
}

// NewFolder makes a folder below parent, or below the system's temporary folder where
// parent is empty; there it first removes the folders whose owner died.
func NewFolder(parent string) (*Folder, error) {
	if parent == "" {
		var err error
		if parent, err = temporary(); err != nil {
			return nil, err
		}
		sweep(parent)
	}
	path, err := os.MkdirTemp(parent, folderPrefix)
	if err != nil {
		return nil, fmt.Errorf("make a temporary folder: %w", err)
	}
	f := &Folder{path: path}
	noteFolder(path)
	// Another user runs Postgres where we are root, so it must be able to pass.
	if err := os.Chmod(path, 0o755); err != nil {
		return nil, errors.Join(fmt.Errorf("open the temporary folder to others: %w", err), f.Remove())
	}
	f.lock, err = os.OpenFile(filepath.Join(path, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = syscall.Flock(int(f.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock the temporary folder %s: %w", path, err), f.Remove())
	}
	return f, nil
}

// Path is where the folder is.
func (f *Folder) Path() string { return f.path }

// Remove deletes the folder with all that is in it.
func (f *Folder) Remove() error {
	err := os.RemoveAll(f.path)
	if f.lock != nil {
		err = errors.Join(err, f.lock.Close())
		f.lock = nil
	}
	if err != nil {
		return fmt.Errorf("remove the temporary folder %s: %w", f.path, err)
	}
	return nil
}

// temporary returns the folder for temporary files. Where we are root it must let another
// user pass, so a private TMPDIR is not used.
func temporary() (string, error) {
	dir := os.TempDir()
	if os.Getuid() != 0 || passable(dir) {
		return dir, nil
	}
	if passable("/tmp") {
		return "/tmp", nil
	}
	return "", fmt.Errorf("neither %s nor /tmp can be entered by uid %d, which runs Postgres because it refuses root: set TMPDIR to a folder that others can enter", dir, nobody)
}

// passable says whether any user can enter the folder: each part of its path has the
// execute permission for others.
func passable(dir string) bool {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false
	}
	for {
		info, err := os.Stat(dir)
		if err != nil || !info.IsDir() || info.Mode()&0o001 == 0 {
			return false
		}
		up := filepath.Dir(dir)
		if up == dir {
			return true
		}
		dir = up
	}
}

// sweepAge keeps sweep away from a folder that is just being made: its lock exists a
// moment before it is taken.
const sweepAge = time.Minute

// sweep removes the folders in dir whose owner died without removing them. It is best
// effort: what can't be removed (another user's) stays.
func sweep(dir string) {
	locks, _ := filepath.Glob(filepath.Join(dir, folderPrefix+"*", lockName)) // the pattern is well-formed
	for _, path := range locks {
		info, err := os.Stat(path)
		if err != nil || time.Since(info.ModTime()) < sweepAge {
			continue
		}
		lock, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = os.RemoveAll(filepath.Dir(path))
		}
		_ = lock.Close()
	}
}

// own gives a file or folder to the user that runs Postgres.
func own(path string) error {
	if os.Getuid() != 0 {
		return nil
	}
	if err := os.Chown(path, nobody, nobody); err != nil {
		return fmt.Errorf("give %s to uid %d: %w", path, nobody, err)
	}
	return nil
}

// unknownUser is the hint for a user without an entry in the user database, whom initdb
// refuses; empty for others.
func unknownUser() string {
	uid := os.Getuid()
	if uid == 0 {
		uid = nobody
	}
	if _, err := user.LookupId(strconv.Itoa(uid)); err != nil {
		return fmt.Sprintf(" (uid %d has no entry in /etc/passwd, and Postgres refuses such a user: add one, or run as another user)", uid)
	}
	return ""
}

// Ports are taken from below Linux's range for outgoing connections (from 32768), so that
// none of those takes a server's port while it is down between two starts.
const portFrom, portTo = 15000, 32000

// freePort returns a port of 127.0.0.1 that nobody listens on at this moment. Another
// process may take it before the caller does: the caller tries again with a new one.
func freePort() (int, error) {
	var last error
	for range 100 {
		port := portFrom + rand.IntN(portTo-portFrom)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			last = err
			continue
		}
		if err := l.Close(); err != nil {
			return 0, fmt.Errorf("find a free port: %w", err)
		}
		return port, nil
	}
	return 0, fmt.Errorf("find a free port: %w", last)
}
