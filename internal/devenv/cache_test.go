package devenv

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestOnceInto(t *testing.T) {
	target := filepath.Join(t.TempDir(), "target")
	// An interrupted attempt left something.
	write(t, filepath.Join(target+".part", "rubbish"), "x", 0o600)
	var built atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			err := onceInto(t.Context(), target, func(dir string) error {
				built.Add(1)
				if exists(target) {
					t.Error("the target is there before it is whole")
				}
				return os.WriteFile(filepath.Join(dir, "whole"), nil, 0o600)
			})
			if err != nil {
				t.Error(err)
			}
			if left := names(t, target); len(left) != 1 || left[0] != "whole" {
				t.Errorf("the target holds %v", left)
			}
		})
	}
	all.Wait()
	if n := built.Load(); n != 1 {
		t.Errorf("it was built %d times", n)
	}
}

func TestOnceIntoAfterAFailure(t *testing.T) {
	target := filepath.Join(t.TempDir(), "target")
	cause := errors.New("no network")
	if err := onceInto(t.Context(), target, func(string) error { return cause }); !errors.Is(err, cause) {
		t.Fatal(err)
	}
	if exists(target) || exists(target+".part") {
		t.Fatal("a failed attempt left something")
	}
	if err := onceInto(t.Context(), target, func(string) error { return nil }); err != nil || !exists(target) {
		t.Fatalf("the second attempt: %v", err)
	}
}

func TestLockIsWaitedForWithTheContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lockFile(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := lockFile(ctx, path); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a held lock: %v", err)
	}
	unlock()
	unlock, err = lockFile(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}

func TestCacheFolder(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", "")
	if got := cacheFolder("fallback"); got == "fallback" || !exists(got) || len(names(t, got)) != 0 {
		t.Errorf("%s", got)
	}
	file := filepath.Join(home, "file")
	write(t, file, "", 0o600)
	t.Setenv("HOME", file)
	if got := cacheFolder("fallback"); got != "fallback" {
		t.Errorf("no place to write to: %s", got)
	}
	t.Setenv("HOME", "")
	if got := cacheFolder("fallback"); got != "fallback" {
		t.Errorf("no home: %s", got)
	}
}
