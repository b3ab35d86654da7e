package devenv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// PostgresEnv is the environment variable that says where Postgres comes from: machine,
// fetched, or a folder that holds initdb and postgres.
const PostgresEnv = "CDC_RELAY_DEVENV_POSTGRES"

// oldestPostgres is the oldest major version that the relay supports.
const oldestPostgres = 14

// postgresPrograms is a folder of server programs.
type postgresPrograms struct {
	bin     string
	version string // such as 15.18
	major   int
	origin  string // for people: where they are from
}

func (p postgresPrograms) path(program string) string { return filepath.Join(p.bin, program) }

// findPostgres returns the programs for the asked version, and fetches them where the
// machine has none. work is a folder that lives as long as the server.
func findPostgres(ctx context.Context, version, work string, progress func(string)) (postgresPrograms, error) {
	major := 0
	if version != "" {
		var err error
		if major, err = strconv.Atoi(version); err != nil || major < oldestPostgres {
			return postgresPrograms{}, fmt.Errorf("find Postgres %q: the version is a number from %d on", version, oldestPostgres)
		}
	}
	where := os.Getenv(PostgresEnv)
	switch where {
	case "", "machine":
		found := machinePostgres(machineFolders(), major)
		if found != nil {
			return *found, nil
		}
		if where != "" {
			return postgresPrograms{}, fmt.Errorf("find Postgres %s: %s=machine, but no server programs (initdb, postgres) from version %d on are here", version, PostgresEnv, oldestPostgres)
		}
		return fetchPostgres(ctx, major, work, progress)
	case "fetched":
		return fetchPostgres(ctx, major, work, progress)
	}
	p, err := inspectPostgres(where)
	if err != nil {
		return postgresPrograms{}, fmt.Errorf("find Postgres in %s=%s: %w", PostgresEnv, where, err)
	}
	if major != 0 && p.major != major {
		return postgresPrograms{}, fmt.Errorf("find Postgres %s: %s=%s holds version %s", version, PostgresEnv, where, p.version)
	}
	return p, nil
}

// machineFolders lists the folders where server programs lie: the one on the PATH, and
// where the distributions of Linux and macOS, which keep them off it, put them.
func machineFolders() []string {
	var found []string
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			found = append(found, filepath.Dir(path))
		}
	}
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin", // Debian, Ubuntu
		"/usr/lib/postgresql*/bin",  // SUSE, Gentoo
		"/usr/libexec/postgresql*",  // Alpine
		"/usr/pgsql-*/bin",          // the RPMs of postgresql.org
		"/usr/local/pgsql/bin",      // built from source
		"/opt/homebrew/opt/postgresql@*/bin",
		"/usr/local/opt/postgresql@*/bin",
		"/Library/PostgreSQL/*/bin",
		"/Applications/Postgres.app/Contents/Versions/*/bin",
	} {
		match, _ := filepath.Glob(pattern) // the patterns are well-formed
		found = append(found, match...)
	}
	return found
}

// machinePostgres returns the newest usable programs of a major version in the folders; 0
// is any supported one. It returns nil where there are none.
func machinePostgres(folders []string, major int) *postgresPrograms {
	var found []postgresPrograms
	for _, dir := range folders {
		p, err := inspectPostgres(dir)
		if err != nil || p.major < oldestPostgres || (major != 0 && p.major != major) {
			continue
		}
		found = append(found, p)
	}
	if len(found) == 0 {
		return nil
	}
	newest := slices.MaxFunc(found, func(a, b postgresPrograms) int { return cmp.Compare(a.major, b.major) })
	return &newest
}

// versionPattern matches what `postgres --version` prints: postgres (PostgreSQL) 15.18 (Debian ...).
var versionPattern = regexp.MustCompile(`\(PostgreSQL\) ((\d+)[.\w]*)`)

// inspectPostgres returns the programs in a folder, if they can be run by whoever will.
func inspectPostgres(dir string) (postgresPrograms, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return postgresPrograms{}, err
	}
	if os.Getuid() == 0 && !passable(dir) {
		return postgresPrograms{}, fmt.Errorf("%s can't be entered by uid %d, which runs Postgres because it refuses root", dir, nobody)
	}
	if _, err := os.Stat(filepath.Join(dir, "initdb")); err != nil {
		return postgresPrograms{}, err
	}
	out, err := exec.Command(filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return postgresPrograms{}, fmt.Errorf("ask postgres for its version: %w", err)
	}
	m := versionPattern.FindStringSubmatch(string(out))
	if m == nil {
		return postgresPrograms{}, fmt.Errorf("postgres --version printed %q", strings.TrimSpace(string(out)))
	}
	major, err := strconv.Atoi(m[2])
	if err != nil {
		return postgresPrograms{}, errors.Join(errors.New("postgres --version"), err)
	}
	return postgresPrograms{bin: dir, version: m[1], major: major, origin: "this machine's programs in " + dir}, nil
}
