package devenv

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// programs makes a folder with programs that say they are of a version.
func programs(t *testing.T, dir, version string) string {
	t.Helper()
	write(t, filepath.Join(dir, "postgres"), fmt.Sprintf("#!/bin/sh\necho 'postgres (PostgreSQL) %s'\n", version), 0o755)
	write(t, filepath.Join(dir, "initdb"), "#!/bin/sh\n", 0o755)
	return dir
}

func TestMachinePostgres(t *testing.T) {
	dir := openFolder(t)
	old := programs(t, filepath.Join(dir, "13"), "13.9")
	p15 := programs(t, filepath.Join(dir, "15"), "15.18 (Debian 15.18-0+deb12u1)")
	p16 := programs(t, filepath.Join(dir, "16"), "16beta2")
	clients := filepath.Join(dir, "clients") // a package of clients has no server programs
	write(t, filepath.Join(clients, "psql"), "#!/bin/sh\n", 0o755)
	broken := filepath.Join(dir, "broken")
	write(t, filepath.Join(broken, "postgres"), "#!/bin/sh\nexit 1\n", 0o755)
	write(t, filepath.Join(broken, "initdb"), "#!/bin/sh\n", 0o755)
	all := []string{broken, clients, old, p15, p16, filepath.Join(dir, "none")}
	for _, c := range []struct {
		folders []string
		major   int
		want    string // its version; empty where none fits
	}{
		{all, 0, "16beta2"},
		{all, 15, "15.18"},
		{all, 17, ""},
		{[]string{old, broken, clients}, 0, ""},
		{nil, 0, ""},
	} {
		got := machinePostgres(c.folders, c.major)
		switch {
		case got == nil && c.want != "", got != nil && got.version != c.want:
			t.Errorf("%d in %v: %+v, want %q", c.major, c.folders, got, c.want)
		}
	}
}

func TestPostgresEnvironmentVariable(t *testing.T) {
	dir := openFolder(t)
	p16 := programs(t, filepath.Join(dir, "16"), "16.3")
	none := func(string) {}
	t.Setenv(PostgresEnv, p16)
	for version, ok := range map[string]bool{"": true, "16": true, "15": false, "13": false, "16.3": false, "x": false} {
		p, err := findPostgres(t.Context(), version, dir, none)
		if (err == nil) != ok || (ok && p.version != "16.3") {
			t.Errorf("version %q: %+v, %v", version, p, err)
		}
	}
	t.Setenv(PostgresEnv, filepath.Join(dir, "nothing"))
	if _, err := findPostgres(t.Context(), "", dir, none); err == nil || !strings.Contains(err.Error(), PostgresEnv) {
		t.Errorf("a folder without programs: %v", err)
	}
	t.Setenv(PostgresEnv, "machine")
	if _, err := findPostgres(t.Context(), "98", dir, none); err == nil || !strings.Contains(err.Error(), PostgresEnv) {
		t.Errorf("a version that the machine lacks: %v", err)
	}
}
