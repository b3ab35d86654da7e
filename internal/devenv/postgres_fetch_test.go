package devenv

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestFetchedPostgres(t *testing.T) {
	if testing.Short() {
		t.Skip("downloads Postgres, once")
	}
	t.Setenv(PostgresEnv, "fetched")
	for _, version := range []string{"", "17"} {
		p := startPostgres(t, PostgresOptions{Version: version})
		want := version
		if want == "" {
			want = "18"
		}
		if got := query(t, p, "show server_version"); !strings.HasPrefix(got, want) || !strings.HasPrefix(got, p.Version()) {
			t.Errorf("asked for %q, got %s, Version says %s", version, got, p.Version())
		}
		if !strings.Contains(p.Origin(), "fetched") {
			t.Errorf("origin %q", p.Origin())
		}
	}
}

func TestFetchUnknownVersion(t *testing.T) {
	t.Setenv(PostgresEnv, "fetched")
	if _, err := findPostgres(t.Context(), "99", t.TempDir(), func(string) {}); err == nil {
		t.Error("version 99 was found")
	}
}

func archive(t *testing.T, headers ...*tar.Header) *tar.Reader {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		content := []byte("content of " + h.Name)
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(content))
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := w.Write(content); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return tar.NewReader(&b)
}

// TestUntarWhateverTheUmask: another user runs what root unpacks.
func TestUntarWhateverTheUmask(t *testing.T) {
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	dir := t.TempDir()
	err := untar(t.Context(), archive(t,
		&tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0o700},
		&tar.Header{Typeflag: tar.TypeReg, Name: "./bin/postgres", Mode: 0o700},
		&tar.Header{Typeflag: tar.TypeDir, Name: "share/empty/", Mode: 0o700},
		&tar.Header{Typeflag: tar.TypeReg, Name: "lib/libpq.so.5", Mode: 0o600},
		&tar.Header{Typeflag: tar.TypeSymlink, Name: "lib/libpq.so", Linkname: "libpq.so.5"},
	), dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{".": 0o755, "bin": 0o755, "bin/postgres": 0o755, "share/empty": 0o755, "lib/libpq.so.5": 0o644} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, want %o", name, info.Mode(), want)
		}
	}
	if b, err := os.ReadFile(filepath.Join(dir, "lib/libpq.so")); err != nil || string(b) != "content of lib/libpq.so.5" {
		t.Errorf("the link leads to %q, %v", b, err)
	}
}

func TestUntarStaysInside(t *testing.T) {
	for name, headers := range map[string][]*tar.Header{
		"dots":     {{Typeflag: tar.TypeReg, Name: "../evil", Mode: 0o600}},
		"absolute": {{Typeflag: tar.TypeReg, Name: "/evil", Mode: 0o600}},
		"link": {
			{Typeflag: tar.TypeSymlink, Name: "out", Linkname: ".."},
			{Typeflag: tar.TypeReg, Name: "out/evil", Mode: 0o600},
		},
	} {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			dir := filepath.Join(parent, "dir")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := untar(t.Context(), archive(t, headers...), dir); err == nil {
				t.Error("it was extracted")
			}
			if left := names(t, parent); len(left) != 1 || exists("/evil") {
				t.Errorf("outside: %v", left)
			}
		})
	}
}

func TestUntarBrokenOrCancelled(t *testing.T) {
	if err := untar(t.Context(), tar.NewReader(strings.NewReader(strings.Repeat("x", 2000))), t.TempDir()); err == nil {
		t.Error("what is no archive was extracted")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := untar(ctx, archive(t), t.TempDir()); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	jar := filepath.Join(t.TempDir(), "a.jar")
	f, err := os.Create(jar)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(zip.NewWriter(f).Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	if err := unpack(t.Context(), jar, t.TempDir()); err == nil {
		t.Error("a jar without programs was unpacked")
	}
}

func TestPlatform(t *testing.T) {
	for want, got := range map[string]string{
		"linux-amd64":        platform("linux", "amd64", false),
		"linux-arm64v8":      platform("linux", "arm64", false),
		"linux-amd64-alpine": platform("linux", "amd64", true),
		"darwin-arm64v8":     platform("darwin", "arm64", false),
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
