package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// mutant is a parsed file.
type mutant struct {
	name     string // area/name
	path     string // of its file, from the root
	wrong    string // what this relay does wrong, on one line
	promises []int
	pkg      string // as in ./wal
	test     string // or Test/subtest
	flags    []string
	changes  []change
}

// change replaces whole lines of one file.
type change struct {
	file         string // from the root, with slashes
	line         int    // of the block in the mutant's file, for messages
	right, wrong string // each line with its end; wrong may be empty
}

// syntaxError says where a mutant's file isn't one.
type syntaxError struct {
	path string
	line int
	what string
}

func (e *syntaxError) Error() string { return fmt.Sprintf("%s:%d: %s", e.path, e.line, e.what) }

// parser reads a mutant's file line by line.
type parser struct {
	m     *mutant
	lines []string
	at    int // the next line, from 0
	file  string
}

func parse(name, path, text string) (*mutant, error) {
	p := &parser{m: &mutant{name: name, path: path}, lines: strings.Split(strings.TrimSuffix(text, "\n"), "\n")}
	if err := p.description(); err != nil {
		return nil, err
	}
	for p.at < len(p.lines) {
		if err := p.header(); err != nil {
			return nil, err
		}
	}
	return p.m, p.complete()
}

func (p *parser) failf(format string, args ...any) error {
	return &syntaxError{path: p.m.path, line: p.at, what: fmt.Sprintf(format, args...)}
}

// next takes a line; p.at is then its number, from 1.
func (p *parser) next() string {
	line := p.lines[p.at]
	p.at++
	return line
}

// description is the first paragraph. It ends with an empty line.
func (p *parser) description() error {
	var words []string
	for p.at < len(p.lines) {
		line := p.next()
		if line == "" {
			break
		}
		if strings.HasPrefix(line, "---") || slices.Contains([]string{"promise", "test", "file"}, key(line)) {
			return p.failf("an empty line has to stand between what the relay does wrong and %q", line)
		}
		words = append(words, strings.Fields(line)...)
	}
	p.m.wrong = strings.Join(words, " ")
	if p.m.wrong == "" {
		return p.failf("the file has to begin with a sentence that says what this relay does wrong")
	}
	return nil
}

func key(line string) string {
	k, _, _ := strings.Cut(line, ":")
	return k
}

func (p *parser) header() error {
	line := p.next()
	k, value, _ := strings.Cut(line, ":")
	fields := strings.Fields(value)
	switch {
	case line == "":
		return nil
	case line == "--- right":
		return p.block()
	case k == "promise":
		return p.promises(value)
	case k == "test":
		return p.test(fields)
	case k == "file":
		if len(fields) != 1 {
			return p.failf("file needs one path from the root of the module, got %q", value)
		}
		p.file = fields[0]
		return nil
	}
	return p.failf("%q is none of promise:, test:, file: and --- right", line)
}

func (p *parser) promises(value string) error {
	if p.m.promises != nil {
		return p.failf("promise stands there twice; one line takes several numbers, with commas")
	}
	for word := range strings.SplitSeq(value, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || n < 1 {
			return p.failf("promise needs numbers of docs/GUARANTEES.md, got %q", word)
		}
		if slices.Contains(p.m.promises, n) {
			return p.failf("promise %d stands there twice", n)
		}
		p.m.promises = append(p.m.promises, n)
	}
	return nil
}

func (p *parser) test(fields []string) error {
	if p.m.test != "" {
		return p.failf("test stands there twice; a mutant names the one test that tells most")
	}
	if len(fields) < 2 {
		return p.failf("test needs a package and a test, as in ./wal TestX")
	}
	p.m.pkg, p.m.test, p.m.flags = fields[0], fields[1], fields[2:]
	if p.m.pkg != "." && !strings.HasPrefix(p.m.pkg, "./") {
		return p.failf("the package of a test begins with ./, got %q", p.m.pkg)
	}
	for _, f := range p.m.flags {
		if !strings.HasPrefix(f, "-") {
			return p.failf("what follows the test is a flag of go test, got %q", f)
		}
	}
	return nil
}

func (p *parser) block() error {
	c := change{file: p.file, line: p.at}
	if c.file == "" {
		return p.failf("a block needs its file: above it")
	}
	var err error
	if c.right, err = p.until("--- wrong"); err != nil {
		return err
	}
	if c.wrong, err = p.until("--- end"); err != nil {
		return err
	}
	switch {
	case strings.TrimSpace(c.right) == "":
		return p.failf("a block needs the right lines that it replaces")
	case c.right == c.wrong:
		return p.failf("the right lines and the wrong ones are the same")
	}
	p.m.changes = append(p.m.changes, c)
	return nil
}

// until takes the lines before a mark.
func (p *parser) until(mark string) (string, error) {
	begin := p.at
	var text strings.Builder
	for p.at < len(p.lines) {
		line := p.next()
		if line == mark {
			return text.String(), nil
		}
		if strings.HasPrefix(line, "--- ") {
			return "", p.failf("expected %q before %q", mark, line)
		}
		text.WriteString(line + "\n")
	}
	p.at = begin
	return "", p.failf("the block has no %q", mark)
}

func (p *parser) complete() error {
	switch {
	case p.m.promises == nil:
		return p.failf("promise: is missing")
	case p.m.test == "":
		return p.failf("test: is missing")
	case p.m.changes == nil:
		return p.failf("there is no block between --- right and --- end, so nothing is wrong")
	}
	return nil
}

// apply returns the changed files, by their path from the root.
func (m *mutant) apply(read func(file string) (string, error)) (map[string]string, error) {
	files := map[string]string{}
	for _, c := range m.changes {
		text, ok := files[c.file]
		if !ok {
			var err error
			if text, err = read(c.file); err != nil {
				return nil, fmt.Errorf("%s:%d: read the file to change: %w", m.path, c.line, err)
			}
		}
		// Whole lines: the text begins at the beginning of one.
		switch n := strings.Count("\n"+text, "\n"+c.right); n {
		case 1:
			files[c.file] = strings.Replace("\n"+text, "\n"+c.right, "\n"+c.wrong, 1)[1:]
		default:
			return nil, fmt.Errorf("%s:%d: the right lines stand %d times in %s, not once: the code has moved on, bring the mutant up to date",
				m.path, c.line, n, c.file)
		}
	}
	return files, nil
}
