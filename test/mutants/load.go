package main

import (
	"errors"
	"fmt"
	"go/ast"
	goparser "go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// where the mutants and the promises are, from the root.
const (
	mutantsDir    = "test/mutants"
	promisesFile  = "docs/GUARANTEES.md"
	mutantsSuffix = ".mutant"
)

var (
	kebab    = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	testName = regexp.MustCompile(`^(Test|Fuzz|Example)\w*$`)
)

// find returns the mutants whose names match, in order of their names. It reads no other, so that
// one can be tried while another is being written.
func find(root string, match *regexp.Regexp) ([]*mutant, error) {
	var found []*mutant
	var bad []error
	areas, err := os.ReadDir(filepath.Join(root, mutantsDir))
	if err != nil {
		return nil, err
	}
	for _, area := range areas {
		if !area.IsDir() {
			continue
		}
		files, err := os.ReadDir(filepath.Join(root, mutantsDir, area.Name()))
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			base, ok := strings.CutSuffix(f.Name(), mutantsSuffix)
			path := mutantsDir + "/" + area.Name() + "/" + f.Name()
			if !ok || !kebab.MatchString(base) || !f.Type().IsRegular() {
				bad = append(bad, fmt.Errorf("%s: expected a file named in lower case with hyphens, and %s at its end", path, mutantsSuffix))
				continue
			}
			if name := area.Name() + "/" + base; match.MatchString(name) {
				m, err := readMutant(root, name, path)
				found, bad = append(found, m), append(bad, err)
			}
		}
	}
	return found, errors.Join(bad...)
}

func readMutant(root, name, path string) (*mutant, error) {
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		return nil, err
	}
	return parse(name, path, string(text))
}

// promise is a row of the table of promises.
type promise struct {
	number int
	title  string
}

var promiseRow = regexp.MustCompile(`^\|\s*([0-9]+)\s*\|\s*\*\*([^*]+?)\.?\*\*`)

// promises reads the table below the heading Promises.
func promises(root string) ([]promise, error) {
	text, err := os.ReadFile(filepath.Join(root, promisesFile))
	if err != nil {
		return nil, err
	}
	var all []promise
	inside := false
	for line := range strings.SplitSeq(string(text), "\n") {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			inside = heading == "Promises"
		}
		row := promiseRow.FindStringSubmatch(line)
		if !inside || row == nil {
			continue
		}
		n, err := strconv.Atoi(row[1])
		if err != nil {
			return nil, err
		}
		all = append(all, promise{number: n, title: row[2]})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: there is no table of promises below the heading Promises", promisesFile)
	}
	return all, nil
}

// check says what is wrong with mutants, without building anything.
func check(root string, mutants []*mutant, known []promise) error {
	var bad []error
	tests := map[string]map[string]bool{}
	for _, m := range mutants {
		for _, n := range m.promises {
			if !slices.ContainsFunc(known, func(p promise) bool { return p.number == n }) {
				bad = append(bad, fmt.Errorf("%s: promise %d isn't in the table of %s", m.path, n, promisesFile))
			}
		}
		if tests[m.pkg] == nil {
			var err error
			if tests[m.pkg], err = testsOf(filepath.Join(root, filepath.FromSlash(m.pkg))); err != nil {
				bad = append(bad, fmt.Errorf("%s: look for the tests of %s: %w", m.path, m.pkg, err))
				continue
			}
		}
		if top, _, _ := strings.Cut(m.test, "/"); !tests[m.pkg][top] {
			bad = append(bad, fmt.Errorf("%s: %s has no test %s", m.path, m.pkg, top))
		}
		for _, c := range m.changes {
			if strings.HasSuffix(c.file, "_test.go") || !fs.ValidPath(c.file) {
				bad = append(bad, fmt.Errorf("%s:%d: %s isn't a file of the relay; a mutant is a wrong relay, not a wrong test", m.path, c.line, c.file))
			}
		}
		if _, err := m.apply(reader(root)); err != nil {
			bad = append(bad, err)
		}
	}
	return errors.Join(bad...)
}

func reader(root string) func(string) (string, error) {
	return func(file string) (string, error) {
		b, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
		return string(b), err
	}
}

// testsOf are the test functions of a folder.
func testsOf(dir string) (map[string]bool, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has no tests", dir)
	}
	tests := map[string]bool{}
	for _, path := range files {
		file, err := goparser.ParseFile(token.NewFileSet(), path, nil, goparser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && testName.MatchString(f.Name.Name) {
				tests[f.Name.Name] = true
			}
		}
	}
	return tests, nil
}

// rapidFlags are what the property tests of a folder are run with, if it has any: a failure that
// is expected must not be written into the work tree, and needs no smallest example.
func rapidFlags(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return nil, err
	}
	for _, path := range files {
		file, err := goparser.ParseFile(token.NewFileSet(), path, nil, goparser.ImportsOnly)
		if err != nil {
			return nil, err
		}
		for _, spec := range file.Imports {
			if spec.Path.Value == `"pgregory.net/rapid"` {
				return []string{"-rapid.nofailfile", "-rapid.shrinktime=1s"}, nil
			}
		}
	}
	return nil, nil
}
