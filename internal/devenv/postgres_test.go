package devenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func query(t *testing.T, p *Postgres, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), p.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var s string
	if err := conn.QueryRow(t.Context(), sql).Scan(&s); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return s
}

func execute(t *testing.T, p *Postgres, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), p.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func startPostgres(t *testing.T, o PostgresOptions) *Postgres {
	t.Helper()
	p, err := StartPostgres(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func TestPostgresLife(t *testing.T) {
	p := startPostgres(t, PostgresOptions{Settings: map[string]string{"fsync": "off", "application_name": "it's ours"}, Progress: func(s string) { t.Log(s) }})
	t.Log(p.Version(), p.Origin(), p.Dir())
	for name, want := range map[string]string{"wal_level": "logical", "fsync": "off", "password_encryption": "scram-sha-256", "unix_socket_directories": ""} {
		if got := query(t, p, "show "+name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if v := query(t, p, "show server_version"); !strings.HasPrefix(v, p.Version()) {
		t.Errorf("Version says %s, the server %s", p.Version(), v)
	}
	execute(t, p, "create table t (n int)")
	url, pid := p.URL(), p.PID()

	steps := []struct {
		name string
		down func() error
	}{
		{"fast stop", func() error { return p.Stop(t.Context(), Fast) }},
		{"smart stop", func() error { return p.Stop(t.Context(), Smart) }},
		{"immediate stop", func() error { return p.Stop(t.Context(), Immediate) }},
		{"kill", p.Kill},
	}
	for i, step := range steps {
		execute(t, p, "insert into t values (1)")
		if err := step.down(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if _, err := pgx.Connect(t.Context(), p.URL()); err == nil {
			t.Fatalf("%s: the server still answers", step.name)
		}
		if err := p.Start(t.Context()); err != nil {
			t.Fatalf("start after a %s: %v", step.name, err)
		}
		if n := query(t, p, "select count(*)::text from t"); n != string(rune('1'+i)) {
			t.Errorf("after a %s: %s rows, want %d", step.name, n, i+1)
		}
	}
	if p.URL() != url || p.PID() == pid {
		t.Error("a restart keeps the address and gets a new process")
	}
	if err := p.Start(t.Context()); err == nil {
		t.Error("a second start of a running server was accepted")
	}
}

func TestPostgresStopIsBoundedByContext(t *testing.T) {
	p := startPostgres(t, PostgresOptions{Settings: map[string]string{"fsync": "off"}})
	conn, err := pgx.Connect(t.Context(), p.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	// A smart stop waits for the session.
	if err := p.Stop(ctx, Smart); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Stop returned %v", err)
	}
	if !p.running().Alive() {
		t.Fatal("the server has ended")
	}
}

func TestPostgresCloseLeavesNothing(t *testing.T) {
	for _, kill := range []bool{false, true} {
		p := startPostgres(t, PostgresOptions{Settings: map[string]string{"fsync": "off"}})
		segment := segmentOf(t, p)
		workers := append(children(p.PID()), p.PID())
		if kill {
			if err := p.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(p.Dir()); !os.IsNotExist(err) {
			t.Errorf("killed %v: the folder is still there: %v", kill, err)
		}
		if segmentExists(t, segment) {
			t.Errorf("killed %v: the shared memory segment %s is still there", kill, segment)
		}
		if err := waitEnded(workers, 20*time.Second); err != nil {
			t.Error(err)
		}
	}
}

// TestPostgresRunsUnprivileged: Postgres refuses root, so root runs it as somebody else.
func TestPostgresRunsUnprivileged(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("not root")
	}
	p := startPostgres(t, PostgresOptions{Settings: map[string]string{"fsync": "off"}})
	for _, path := range []string{p.data, filepath.Join(p.data, "PG_VERSION"), fmt.Sprintf("/proc/%d", p.PID())} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if uid := info.Sys().(*syscall.Stat_t).Uid; uid != nobody {
			t.Errorf("%s belongs to uid %d", path, uid)
		}
	}
}

// TestPostgresNeedsItsPassword: others on the machine can't use it.
func TestPostgresNeedsItsPassword(t *testing.T) {
	p := startPostgres(t, PostgresOptions{Settings: map[string]string{"fsync": "off"}})
	c, err := pgx.ParseConfig(p.URL())
	if err != nil {
		t.Fatal(err)
	}
	c.Password = "wrong"
	if conn, err := pgx.ConnectConfig(t.Context(), c); err == nil {
		_ = conn.Close(t.Context())
		t.Error("a wrong password was accepted")
	}
	if exists(filepath.Join(p.Dir(), "password")) {
		t.Error("the password lies in a file")
	}
}
