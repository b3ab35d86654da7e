package devenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// cacheFolder returns the folder for what is downloaded once, below the user's cache folder.
// Where there is none to write to it returns fallback, which lives as long as the server.
func cacheFolder(fallback string) string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return fallback
	}
	dir = filepath.Join(dir, "cdc-relay")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fallback
	}
	probe, err := os.CreateTemp(dir, "probe-")
	if err != nil {
		return fallback
	}
	_ = probe.Close()
	_ = os.Remove(probe.Name())
	return dir
}

// onceInto makes the folder target by calling build with an empty folder, which is moved to
// its place only when build succeeded. Processes that want the same target at the same time
// wait for the first one. Where target exists, nothing happens.
func onceInto(ctx context.Context, target string, build func(dir string) error) error {
	if exists(target) {
		return nil
	}
	unlock, err := lockFile(ctx, target+".lock")
	if err != nil {
		return err
	}
	defer unlock()
	if exists(target) {
		return nil
	}
	part := target + ".part"
	// What an interrupted build left is rubbish: we hold the lock.
	if err := os.RemoveAll(part); err != nil {
		return fmt.Errorf("remove what an earlier attempt left: %w", err)
	}
	if err := os.MkdirAll(part, 0o755); err != nil {
		return fmt.Errorf("make a cache folder: %w", err)
	}
	if err := build(part); err != nil {
		return errors.Join(err, os.RemoveAll(part))
	}
	if err := os.Rename(part, target); err != nil {
		return fmt.Errorf("put a cache folder into its place: %w", err)
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// lockFile waits until this process alone holds the advisory lock on a file. The system lets
// go of it when the process dies.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open a lock: %w", err)
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			_ = f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, fmt.Errorf("wait for the lock %s, which another process holds: %w", path, context.Cause(ctx))
		case <-tick.C:
		}
	}
}
