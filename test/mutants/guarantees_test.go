package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	quoted = regexp.MustCompile("`([^`]+)`")
	// number is the first cell of a row that takes a promise apart, such as 1.3, or is a crash point, such as C2.
	number = regexp.MustCompile(`^(?:([0-9]+)\.|C)[0-9]+$`)
)

// The page of guarantees names a test and a mutant with each promise and each crash point: they
// have to be there, to belong together, and to be about that promise.
func TestGuaranteesNameWhatIsThere(t *testing.T) {
	root := filepath.Join("..", "..")
	text, err := os.ReadFile(filepath.Join(root, promisesFile))
	if err != nil {
		t.Fatal(err)
	}
	all, err := find(root, regexp.MustCompile(""))
	if err != nil {
		t.Fatal(err)
	}
	p := page{t: t, root: root, mutants: map[string]*mutant{}, tests: map[string]map[string]bool{}, promises: map[int]int{}, proven: map[string]int{}}
	for _, m := range all {
		p.mutants[m.name] = m
	}
	for i, line := range strings.Split(string(text), "\n") {
		p.line(i+1, line)
	}
	for n, times := range p.proven {
		if times != 0 {
			t.Errorf("%s: row %s and its evidence don't match: one of them stands %d times too often", promisesFile, n, max(times, -times))
		}
	}
	known, err := promises(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range known {
		if p.promises[k.number] == 0 {
			t.Errorf("%s: no row takes promise %d apart", promisesFile, k.number)
		}
	}
	if len(p.proven) < 60 {
		t.Errorf("%s: found %d rows: are the tables still read?", promisesFile, len(p.proven))
	}
}

// page goes through the numbered rows, and the table of evidence at its end.
type page struct {
	t        *testing.T
	root     string
	mutants  map[string]*mutant
	tests    map[string]map[string]bool // of each package
	promises map[int]int                // how many rows each has
	proven   map[string]int             // by a row's number: claims less evidence
	evidence bool                       // the line is in the table of evidence
}

func (p *page) line(n int, line string) {
	cells, ok := strings.CutPrefix(line, "| ")
	if !ok {
		p.evidence = p.evidence && strings.HasPrefix(line, "|")
		return
	}
	row := strings.Split(strings.TrimSuffix(cells, " |"), " | ")
	if strings.HasSuffix(line, "| test | mutant |") {
		p.evidence = true
		return
	}
	if !number.MatchString(row[0]) {
		return
	}
	if !p.evidence {
		p.proven[row[0]]++
		return
	}
	p.proven[row[0]]--
	if len(row) != 3 {
		p.t.Errorf("%s:%d: evidence has a number, tests and mutants", promisesFile, n)
		return
	}
	p.row(n, row[0], row[1], row[2])
}

func (p *page) row(n int, first, test, mutant string) {
	p.t.Helper()
	named := map[string]bool{}
	for _, q := range quoted.FindAllStringSubmatch(test, -1) {
		pkg, name, _ := strings.Cut(q[1], " ")
		if !p.has(pkg, name) {
			p.t.Errorf("%s:%d: %s has no test %s", promisesFile, n, pkg, name)
		}
		named["./"+pkg+" "+name] = true
	}
	promise, about, some := 0, false, false
	if of := number.FindStringSubmatch(first); of[1] != "" {
		promise, _ = strconv.Atoi(of[1]) // digits
		p.promises[promise]++
	}
	for _, q := range quoted.FindAllStringSubmatch(mutant, -1) {
		some = true
		m := p.mutants[q[1]]
		if m == nil {
			p.t.Errorf("%s:%d: there is no mutant %s", promisesFile, n, q[1])
			continue
		}
		for _, is := range m.promises {
			about = about || is == promise
		}
		if top, _, _ := strings.Cut(m.test, "/"); !named[m.pkg+" "+top] {
			p.t.Errorf("%s:%d: mutant %s is killed by %s %s, which isn't named there", promisesFile, n, q[1], m.pkg, top)
		}
	}
	switch {
	case !some:
		p.t.Errorf("%s:%d: %q names no mutant", promisesFile, n, first)
	case promise > 0 && !about:
		p.t.Errorf("%s:%d: none of the mutants is about promise %d", promisesFile, n, promise)
	}
}

// has says whether a package has a test.
func (p *page) has(pkg, name string) bool {
	p.t.Helper()
	if p.tests[pkg] == nil {
		tests, err := testsOf(filepath.Join(p.root, filepath.FromSlash(pkg)))
		if err != nil {
			p.t.Errorf("%s: package %s: %v", promisesFile, pkg, err)
			tests = map[string]bool{}
		}
		p.tests[pkg] = tests
	}
	return p.tests[pkg][name]
}
