package relay_test

import (
	"go/ast"
	"go/token"
	"path/filepath"
	"slices"
	"testing"
)

// starters are functions that leave something running: a goroutine, a server, a client that has
// goroutines, a process. By the path of the package that they are in.
var starters = map[string][]string{
	"net":                                {"Listen", "ListenTCP"},
	"net/http":                           {"ListenAndServe", "Serve"},
	"net/http/httptest":                  {"NewServer", "NewTLSServer", "NewUnstartedServer"},
	"os/exec":                            {"Command", "CommandContext"},
	"time":                               {"AfterFunc"},
	"context":                            {"AfterFunc"},
	"github.com/IBM/sarama":              {"NewClient", "NewClusterAdmin", "NewAsyncProducer", "NewSyncProducer"},
	"github.com/jackc/pgx/v5":            {"Connect", "ConnectConfig"},
	"github.com/jackc/pgx/v5/pgconn":     {"Connect", "ConnectConfig"},
	"github.com/twmb/franz-go/pkg/kgo":   {"NewClient"},
	"github.com/twmb/franz-go/pkg/kfake": {"NewCluster"},
	"golang.org/x/sync/errgroup":         {"WithContext"},
	module + "internal/devenv":           {"StartPostgres", "StartKafka", "StartEmbedded", "StartProcess"},
	module + "internal/devenv/envtest":   {"Postgres", "OwnPostgres", "Database", "DatabaseOn", "Kafka", "OwnKafka", "Embedded"},
	module + "test/proxy":                {"Listen"},
}

// leakChecks are what a TestMain may call to find goroutines that the tests left behind.
// envtest.Main looks for processes and folders, too.
var leakChecks = map[string][]string{
	module + "internal/devenv/envtest": {"Main"},
	"go.uber.org/goleak":               {"VerifyTestMain", "Find"},
}

// otherwise are packages that are looked after in another way.
var otherwise = map[string]string{
	"internal/devenv/envtest": "its TestMain is the Main that others call",
	"test/simulation":         "each run is a bubble of testing/synctest, which fails where goroutines remain",
}

// A goroutine that outlives what it was for holds a connection, a slot or a lock; under a
// supervisor that starts again and again they pile up. Packages that start any look for them
// when their tests are over.
func TestLeaksAreLookedFor(t *testing.T) {
	starts := map[string]token.Position{}
	checks := map[string]bool{}
	for _, s := range sources(t) {
		dir := filepath.ToSlash(filepath.Dir(s.path))
		if at, ok := s.starts(); ok && starts[dir].Line == 0 {
			starts[dir] = token.Position{Filename: s.path, Line: at}
		}
		checks[dir] = checks[dir] || s.test() && s.checksLeaks()
	}
	if len(starts) < 15 {
		t.Errorf("found only %d packages that start something", len(starts))
	}
	for dir := range otherwise {
		if starts[dir].Line == 0 || checks[dir] {
			t.Errorf("%s needs no exemption", dir)
		}
	}
	for dir, at := range starts {
		if !checks[dir] && otherwise[dir] == "" {
			t.Errorf("%s starts something that may be left running (%s:%d), and its tests have no TestMain that calls envtest.Main or goleak", dir, at.Filename, at.Line)
		}
	}
}

// starts returns the first line that starts something.
func (s *source) starts() (line int, ok bool) {
	found := func(at int) {
		if !ok || at < line {
			line, ok = at, true
		}
	}
	for path, names := range starters {
		if name := s.imported(path); name != "" {
			s.calls(name, names, func(line int, _ string) { found(line) })
		}
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found(s.line(n.Pos()))
		case *ast.CallExpr: // of a wait group, an errgroup or the like
			if sel, isSel := n.Fun.(*ast.SelectorExpr); isSel && sel.Sel.Name == "Go" {
				found(s.line(n.Pos()))
			}
		}
		return true
	})
	return line, ok
}

// checksLeaks says that the file's TestMain looks for leaks.
func (s *source) checksLeaks() bool {
	i := slices.IndexFunc(s.file.Decls, func(d ast.Decl) bool {
		f, ok := d.(*ast.FuncDecl)
		return ok && f.Recv == nil && f.Name.Name == "TestMain"
	})
	if i < 0 {
		return false
	}
	main := s.file.Decls[i]
	found := false
	for path, names := range leakChecks {
		if name := s.imported(path); name != "" {
			s.calls(name, names, func(line int, _ string) {
				found = found || s.line(main.Pos()) <= line && line <= s.line(main.End())
			})
		}
	}
	return found
}
