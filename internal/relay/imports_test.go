package relay_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/cdc-relay/cdc-relay/"

// allowed is what a package may import beside the standard library. Data flows wal, decode,
// shard, sink, checkpoint, and imports point only the other way; internal/relay is where the
// stages meet, cmd is where everything does.
type allowed struct {
	ours  []string
	third []string
	// tests are packages of ours that its tests may use beyond ours and the helpers.
	tests []string
}

var (
	pgx      = "github.com/jackc/pgx/v5"
	pgconn   = "github.com/jackc/pgx/v5/pgconn"
	pgproto3 = "github.com/jackc/pgx/v5/pgproto3"
	zerolog  = "github.com/rs/zerolog" // the type; zerolog/log, the global logger, is nobody's
	franz    = "github.com/twmb/franz-go/pkg/"
)

// importTable has a row for each package: a new package takes its place here first.
var importTable = map[string]allowed{
	"wal":         {third: []string{pgconn, pgproto3, zerolog}, tests: []string{"decode"}},
	"wal/waltest": {ours: []string{"wal"}, third: []string{pgconn, pgproto3, "github.com/jackc/pglogrepl"}},

	"decode":       {ours: []string{"wal"}},
	"decode/shape": {ours: []string{"wal", "decode"}},

	"shard": {ours: []string{"wal"}},

	"sink": {ours: []string{"wal", "decode/shape"}},
	"sink/kafka": {
		ours:  []string{"wal", "decode/shape", "sink"},
		third: []string{"github.com/IBM/sarama", "github.com/xdg-go/scram", zerolog},
	},
	"sink/stdout":   {ours: []string{"wal", "decode/shape", "sink"}},
	"sink/sinktest": {ours: []string{"wal", "decode/shape", "sink"}, tests: []string{"sink/kafka"}},

	// The stored state holds contracts, which are shard's.
	"checkpoint": {ours: []string{"wal", "shard"}, third: []string{pgx, pgconn}, tests: []string{"sql"}},

	"sql": {third: []string{pgx, pgconn}, tests: []string{"decode", "decode/shape"}},

	"internal/catalog": {ours: []string{"wal", "decode"}, third: []string{pgx, pgconn}},
	"internal/relay": {
		ours:  []string{"wal", "decode", "decode/shape", "shard", "sink", "checkpoint", "internal/catalog"},
		third: []string{"github.com/cenkalti/backoff/v5", "golang.org/x/sync/errgroup", pgx, pgconn, zerolog},
	},
	"internal/config": {third: []string{
		"github.com/goccy/go-yaml", "github.com/goccy/go-yaml/ast", "github.com/goccy/go-yaml/parser", pgconn,
	}},
	"internal/admin": {
		ours: []string{"wal", "internal/relay"},
		third: []string{
			"github.com/prometheus/client_golang/prometheus", "github.com/prometheus/client_golang/prometheus/collectors",
			"github.com/prometheus/client_golang/prometheus/promhttp", zerolog,
		},
	},
	"internal/devenv": {
		ours: []string{"test/kafka"},
		third: []string{
			"github.com/fergusstrange/embedded-postgres", "github.com/xi2/xz", "golang.org/x/sys/unix", pgx, pgconn,
			franz + "kadm", franz + "kerr", franz + "kfake", franz + "kgo",
		},
	},
	"internal/devenv/envtest": {ours: []string{"internal/devenv"}, third: []string{franz + "kfake", "go.uber.org/goleak"}},
	"internal/demo": {
		ours: []string{"internal/devenv", "sql", "wal"},
		third: []string{
			"github.com/vbauerster/mpb/v8", "github.com/vbauerster/mpb/v8/decor", "golang.org/x/sync/errgroup", "github.com/twmb/franz-go/pkg/kmsg", pgx, pgconn,
			franz + "kadm", franz + "kgo",
		},
	},

	"cmd/cdc-relay": {
		ours: []string{
			"wal", "decode", "decode/shape", "shard", "sink", "sink/kafka", "sink/stdout", "checkpoint", "sql", "internal/admin",
			"internal/catalog", "internal/config", "internal/demo", "internal/relay",
		},
		third: []string{"github.com/mattn/go-isatty", "github.com/spf13/cobra", pgx, pgconn, zerolog},
	},

	"test/kafka":       {},
	"test/suites":      {},
	"test/proxy":       {},
	"test/oracle":      {third: []string{pgx, franz + "kadm", franz + "kgo"}},
	"test/lab":         {ours: []string{"internal/devenv", "internal/devenv/envtest", "wal", "test/oracle"}, third: []string{pgx, franz + "kadm", franz + "kgo"}},
	"test/integration": {},
	"test/crash":       {},
	"test/mutants":     {},
	// The relay as a whole, without a server.
	"test/simulation": {
		ours: []string{"wal", "decode", "decode/shape", "shard", "sink", "sink/kafka", "checkpoint", "internal/relay"},
		third: []string{
			franz + "kbin", franz + "kmsg", pgconn, zerolog,
		},
	},
	"test/storm": {
		ours:  []string{"wal", "decode/shape", "sink", "test/oracle"},
		third: []string{franz + "kbin", franz + "kerr", franz + "kfake", franz + "kmsg"},
		tests: []string{"sink/kafka"},
	},
}

var (
	// testHelpers may be used by the tests of every package.
	testHelpers = []string{
		"wal", "wal/waltest", "decode/shape", "sink/sinktest", "internal/devenv", "internal/devenv/envtest",
		"test/lab", "test/oracle", "test/proxy",
	}
	// testModules are what tests may use beside what their package may. pglogrepl is the reference
	// that our own parser is compared with.
	testModules = []string{
		"pgregory.net/rapid", "go.uber.org/goleak", "github.com/jackc/pglogrepl", pgx, zerolog,
		"github.com/twmb/franz-go", "github.com/prometheus/client_model", "github.com/goccy/go-yaml",
	}
)

// listed is what go list says about a package.
type listed struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
}

func packages(t *testing.T) []listed {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", "./...")
	cmd.Dir = root(t)
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list: %v\n%s", err, exit.Stderr)
		}
		t.Fatal(err)
	}
	var all []listed
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if len(all) < 10 {
		t.Fatalf("go list found %d packages", len(all))
	}
	return all
}

// Imports point only left. A package may import what its row says, and nothing else.
func TestImports(t *testing.T) {
	rows := map[string]bool{}
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		row, ok := importTable[name]
		if !ok {
			t.Errorf("%s has no row in the table of imports: say what it may import", name)
			continue
		}
		rows[name] = true
		for _, bad := range row.refused(p.Imports) {
			t.Errorf("%s imports %s, which its row in the table of imports doesn't allow", name, bad)
		}
		for _, bad := range row.refusedInTests(name, slices.Concat(p.TestImports, p.XTestImports)) {
			t.Errorf("a test of %s imports %s, which its row in the table of imports doesn't allow", name, bad)
		}
	}
	for name := range importTable {
		if !rows[name] {
			t.Errorf("%s is in the table of imports, and is no package", name)
		}
	}
}

// refused are the imports that are neither the standard library's nor allowed.
func (a allowed) refused(imports []string) []string {
	return slices.DeleteFunc(slices.Clone(imports), func(path string) bool {
		if own, ok := strings.CutPrefix(path, module); ok {
			return slices.Contains(a.ours, own)
		}
		return standard(path) || slices.Contains(a.third, path)
	})
}

func (a allowed) refusedInTests(name string, imports []string) []string {
	return slices.DeleteFunc(a.refused(imports), func(path string) bool {
		if own, ok := strings.CutPrefix(path, module); ok {
			return own == name || slices.Contains(a.tests, own) || slices.Contains(testHelpers, own)
		}
		return slices.ContainsFunc(testModules, func(m string) bool {
			return path == m || m != zerolog && strings.HasPrefix(path, m+"/")
		})
	})
}

// standard says that a path is the standard library's: its first part has no dot.
func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

// The table itself follows the direction of the data, so that a wrong row is seen too.
func TestImportTablePointsLeft(t *testing.T) {
	order := []string{"wal", "decode", "decode/shape", "shard", "sink", "sink/kafka", "sink/stdout", "checkpoint"}
	for i, name := range order {
		for _, other := range importTable[name].ours {
			if j := slices.Index(order, other); j < 0 || j >= i {
				t.Errorf("%s may import %s, which isn't to its left", name, other)
			}
		}
		if len(importTable[name].third) > 0 && slices.Contains([]string{"decode", "decode/shape", "shard", "sink"}, name) {
			t.Errorf("%s is pure and may import %q", name, importTable[name].third)
		}
	}
	for name, row := range importTable {
		helper := strings.HasPrefix(name, "test/") || strings.HasPrefix(name, "internal/devenv") || name == "internal/demo"
		for _, other := range row.ours {
			if !helper && (strings.HasPrefix(other, "internal/devenv") || strings.HasSuffix(other, "test")) {
				t.Errorf("%s may import %s, which is for tests", name, other)
			}
		}
	}
}
