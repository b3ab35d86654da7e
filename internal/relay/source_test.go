package relay_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	fileLinesMax     = 400
	functionLinesMax = 70
)

// root is the module's directory.
func root(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOMOD").Output()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(strings.TrimSpace(string(out)))
}

// source is one parsed Go file.
type source struct {
	path string // from the root, with slashes
	text []byte
	file *ast.File
	set  *token.FileSet
}

func (s *source) test() bool { return strings.HasSuffix(s.path, "_test.go") }

func (s *source) line(p token.Pos) int { return s.set.Position(p).Line }

// walk visits the project's files: not what is generated, built or the tools' own.
func walk(t *testing.T, visit func(path string, text []byte)) {
	t.Helper()
	dir := root(t)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if slices.Contains([]string{".git", "bin", "dist"}, rel) || d.Name() == "testdata" || strings.HasPrefix(d.Name(), "_") {
				return fs.SkipDir
			}
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		visit(rel, text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func sources(t *testing.T) []*source {
	t.Helper()
	var all []*source
	walk(t, func(path string, text []byte) {
		if !strings.HasSuffix(path, ".go") {
			return
		}
		s := &source{path: path, text: text, set: token.NewFileSet()}
		var err error
		if s.file, err = parser.ParseFile(s.set, path, text, parser.ParseComments); err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	})
	if len(all) < 100 {
		t.Fatalf("found %d Go files", len(all))
	}
	return all
}

func TestSizes(t *testing.T) {
	for _, s := range sources(t) {
		if n := bytes.Count(s.text, []byte("\n")); n > fileLinesMax {
			t.Errorf("%s has %d lines, more than %d: it has two responsibilities", s.path, n, fileLinesMax)
		}
		if s.test() {
			continue // a table of cases is long, and simple
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if n := s.line(f.End()) - s.line(f.Pos()) + 1; n > functionLinesMax {
				t.Errorf("%s:%d: %s has %d lines, more than %d", s.path, s.line(f.Pos()), f.Name.Name, n, functionLinesMax)
			}
		}
	}
}

// Every package says what it is for, in its doc.go.
func TestPackageDocs(t *testing.T) {
	docs := map[string]bool{}
	for _, s := range sources(t) {
		dir := filepath.ToSlash(filepath.Dir(s.path))
		docs[dir] = docs[dir] || false
		if filepath.Base(s.path) != "doc.go" {
			continue
		}
		begins := "Package " + s.file.Name.Name + " "
		if s.file.Name.Name == "main" {
			begins = "Command "
		}
		docs[dir] = strings.HasPrefix(s.file.Doc.Text(), begins)
	}
	for dir, ok := range docs {
		if !ok {
			t.Errorf("%s has no doc.go that begins with what the package is", dir)
		}
	}
}

// A test that sleeps is slow, or wrong on a slow machine. Inside of a synctest bubble the clock
// isn't the machine's, so that a sleep there takes no time and is exact.
func TestNobodySleeps(t *testing.T) {
	for _, s := range sources(t) {
		name := s.imported("time")
		bubbles := s.test() && s.imported("testing/synctest") != ""
		if name == "" || bubbles {
			continue
		}
		s.calls(name, []string{"Sleep"}, func(line int, f string) {
			t.Errorf("%s:%d: time.%s: wait for what you wait for", s.path, line, f)
		})
	}
}

// pure are the files, and the folders of files, that are functions of their input.
var pure = []string{
	"decode/", "decode/shape/", "shard/", "sink/kafka/lane.go", "checkpoint/tracker.go", "checkpoint/decide.go",
}

// impureImports reach outside of the process, or differ between two runs.
var impureImports = regexp.MustCompile(`^(net|os|log|syscall|plugin|math/rand|crypto/rand|runtime/debug|testing)(/|$)`)

// clock are the functions of time that read the clock.
var clock = []string{"Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Sleep"}

// The pure cores have no goroutine, clock, chance or outside world.
func TestPureFilesArePure(t *testing.T) {
	found := map[string]bool{}
	for _, s := range sources(t) {
		place := s.purePlace()
		if place == "" || s.test() {
			continue
		}
		found[place] = true
		for _, spec := range s.file.Imports {
			if path := importPath(spec); impureImports.MatchString(path) {
				t.Errorf("%s imports %s", s.path, path)
			}
		}
		if name := s.imported("time"); name != "" {
			s.calls(name, clock, func(line int, f string) { t.Errorf("%s:%d: time.%s", s.path, line, f) })
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if g, ok := n.(*ast.GoStmt); ok {
				t.Errorf("%s:%d: starts a goroutine", s.path, s.line(g.Pos()))
			}
			return true
		})
	}
	for _, place := range pure {
		if !found[place] {
			t.Errorf("%s is to be pure, and isn't there", place)
		}
	}
}

func (s *source) purePlace() string {
	for _, p := range pure {
		if s.path == p || strings.HasSuffix(p, "/") && filepath.ToSlash(filepath.Dir(s.path))+"/" == p {
			return p
		}
	}
	return ""
}

// Work that is left is an issue, not a comment.
func TestNothingIsLeftToDo(t *testing.T) {
	words := regexp.MustCompile(`\b(` + strings.Join([]string{"TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"}, "|") + `)\b`)
	walk(t, func(path string, text []byte) {
		if bytes.ContainsRune(text, 0) || path == "go.sum" || path == "LICENSE" {
			return
		}
		for _, at := range words.FindAllIndex(text, -1) {
			t.Errorf("%s:%d: %s", path, 1+bytes.Count(text[:at[0]], []byte("\n")), text[at[0]:at[1]])
		}
	})
}

// majorVersion is the end of a module's path that is not its package's name.
var majorVersion = regexp.MustCompile(`/v[0-9]+$`)

// imported is the name by which a file imports a package, empty where it doesn't.
func (s *source) imported(path string) string {
	for _, spec := range s.file.Imports {
		if importPath(spec) != path {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		path = majorVersion.ReplaceAllString(path, "")
		return path[strings.LastIndexByte(path, '/')+1:]
	}
	return ""
}

func importPath(spec *ast.ImportSpec) string {
	path, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		panic(err) // it has been parsed
	}
	return path
}

// calls reports each use of a package's functions, also as a value.
func (s *source) calls(pkg string, names []string, report func(line int, name string)) {
	ast.Inspect(s.file, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && x.Name == pkg && slices.Contains(names, sel.Sel.Name) {
			report(s.line(sel.Pos()), sel.Sel.Name)
		}
		return true
	})
}
