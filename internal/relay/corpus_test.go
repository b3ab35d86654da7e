package relay_test

import (
	"go/ast"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// corpusMax bounds the seeds of one fuzz target: each is there for a reason that its name says,
// or for what it covers. What a long run finds belongs in the cache.
const corpusMax = 14

// Every fuzz target has seeds that are tests in every run, and every seed a target.
func TestFuzzCorpora(t *testing.T) {
	top := root(t)
	targets := map[string]bool{}
	for _, s := range sources(t) {
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !s.test() || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Fuzz") {
				continue
			}
			dir := filepath.ToSlash(filepath.Join(filepath.Dir(s.path), "testdata", "fuzz", f.Name.Name))
			targets[dir] = true
			seeds, err := os.ReadDir(filepath.Join(top, dir))
			if err != nil || len(seeds) == 0 || len(seeds) > corpusMax {
				t.Errorf("%s has %d seeds (%v), want 1 to %d", dir, len(seeds), err, corpusMax)
			}
		}
	}
	if len(targets) < 15 {
		t.Errorf("found only %d fuzz targets", len(targets))
	}
	for _, depth := range []string{"*", "*/*", "*/*/*"} {
		dirs, err := filepath.Glob(filepath.Join(top, depth, "testdata", "fuzz", "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range dirs {
			rel, err := filepath.Rel(top, dir)
			if err != nil {
				t.Fatal(err)
			}
			if !targets[filepath.ToSlash(rel)] {
				t.Errorf("%s is no target's", rel)
			}
		}
	}
}
