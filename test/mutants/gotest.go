package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// gocmd runs the go command in the module, with an overlay or without one.
type gocmd struct {
	root    string
	overlay string // a file, empty for the right code
}

// command is stopped with everything that it started when the context ends.
func (g gocmd) command(ctx context.Context, args ...string) (*exec.Cmd, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = g.root
	cmd.WaitDelay = 10 * time.Second
	stopGroup(cmd)
	if g.overlay == "" {
		return cmd, nil
	}
	// What is set in the environment or by go env -w goes on to hold.
	env := exec.CommandContext(ctx, "go", "env", "GOFLAGS")
	env.Dir = g.root
	flags, err := env.Output()
	if err != nil {
		return nil, fmt.Errorf("go env GOFLAGS: %w", err)
	}
	if bytes.Contains(flags, []byte("-overlay")) {
		return nil, errors.New("GOFLAGS holds an -overlay already, and go takes only one: unset it")
	}
	// A go command that is stopped leaves its build behind: where the overlay is, which goes away.
	cmd.Env = append(os.Environ(), "GOTMPDIR="+filepath.Dir(g.overlay), "GOFLAGS="+strings.TrimSpace(string(flags)+" '-overlay="+g.overlay+"'"))
	return cmd, nil
}

// compile builds packages, links nothing and keeps nothing.
func (g gocmd) compile(ctx context.Context, packages ...string) error {
	cmd, err := g.command(ctx, append([]string{"list", "-export", "-f", " "}, packages...)...)
	if err != nil {
		return err
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, bytes.TrimSpace(out))
	}
	return nil
}

// dependencies are the folders of the module that a package and its tests are built from.
func (g gocmd) dependencies(ctx context.Context, pkg string) (map[string]bool, error) {
	cmd, err := g.command(ctx, "list", "-deps", "-test", "-f", "{{if not .Standard}}{{.Dir}}{{end}}", pkg)
	if err != nil {
		return nil, err
	}
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w\n%s", err, exit.Stderr)
		}
		return nil, fmt.Errorf("go list -deps -test %s: %w", pkg, err)
	}
	dirs := map[string]bool{}
	for dir := range strings.FieldsFuncSeq(string(out), func(r rune) bool { return r == '\n' || r == '\r' }) {
		if rel, err := filepath.Rel(g.root, dir); err == nil && filepath.IsLocal(rel) {
			dirs[filepath.ToSlash(rel)] = true
		}
	}
	return dirs, nil
}

// event is a line of `go test -json`, see `go doc test2json`.
type event struct {
	Action, Package, Test, Output, ImportPath, FailedBuild string
	Elapsed                                                float64
}

// outcome is what became of the tests of one run of go test.
type outcome struct {
	tests      map[string]*tested
	built      bool
	failed     bool // the package
	buildError string
	other      string // what the package said beside its tests
	signal     string // that ended the process, as in "signal: killed"
}

// tested is one test. A test that ran and has no verdict took its process down with it.
type tested struct {
	verdict string // of the last run: pass, fail, skip; empty while it runs
	passed  int    // runs
	output  []string
}

// test runs tests of one package count times. The error is the go command's own; that a test failed is none.
func (g gocmd) test(ctx context.Context, count int, pkg string, names, flags []string) (*outcome, error) {
	rapid, err := rapidFlags(filepath.Join(g.root, filepath.FromSlash(pkg)))
	if err != nil {
		return nil, err
	}
	// Linking is most of the work, and without tables for debuggers half of it. The package comes
	// first: go can't know whether a flag of the test binary takes a value.
	args := []string{"test", "-json", "-count", strconv.Itoa(count), "-vet=off", "-ldflags=-w", "-timeout=0", "-run", pattern(names), pkg}
	cmd, err := g.command(ctx, slices.Concat(args, flags, rapid)...)
	if err != nil {
		return nil, err
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	o := read(stdout.String())
	if err != nil && !o.failed && o.built {
		return nil, fmt.Errorf("go test %s: %w\n%s", pkg, err, bytes.TrimSpace(stderr.Bytes()))
	}
	return o, nil
}

// pattern matches exactly the named tests and their subtests.
func pattern(names []string) string {
	all := make([]string, len(names))
	for i, name := range names {
		parts := strings.Split(name, "/")
		for j, p := range parts {
			parts[j] = "^" + regexp.QuoteMeta(p) + "$"
		}
		all[i] = strings.Join(parts, "/")
	}
	return strings.Join(all, "|")
}

func read(lines string) *outcome {
	o := &outcome{tests: map[string]*tested{}, built: true}
	var build, other strings.Builder
	var last string // what was printed, but for the verdict on the package
	for line := range strings.Lines(lines) {
		var e event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			other.WriteString(line) // what isn't JSON is the test binary's own, past its tests
			continue
		}
		if e.Action == "output" && !strings.HasPrefix(e.Output, "FAIL\t") {
			last = e.Output
		}
		switch {
		case e.Action == "build-output":
			build.WriteString(e.Output)
		case e.Action == "build-fail" || e.FailedBuild != "":
			o.built = false
		case e.Test == "" && e.Action == "output":
			other.WriteString(e.Output)
		case e.Test == "" && e.Action == "fail":
			o.failed = true
		case e.Test != "":
			o.add(e)
		}
	}
	o.buildError, o.other = strings.TrimSpace(build.String()), strings.TrimSpace(other.String())
	if o.failed {
		o.signal = ended.FindString(last)
	}
	return o
}

func (o *outcome) add(e event) {
	t := o.tests[e.Test]
	if t == nil {
		t = &tested{}
		o.tests[e.Test] = t
	}
	switch e.Action {
	case "output":
		t.output = append(t.output, e.Output)
	case "run":
		t.verdict = ""
	case "pass", "fail", "skip":
		t.verdict = e.Action
		if e.Action == "pass" {
			t.passed++
		}
	}
}

// ended is how go test says that a signal ended the process: last of all, and behind what the
// process had printed of a line. A process that ended itself has an exit status there.
var ended = regexp.MustCompile(`signal: [^\n]+`)

// said is a line that a test printed with its place, as t.Error does.
var said = regexp.MustCompile(`^\s*\S+\.go:[0-9]+: `)

// assertion is the first thing that a test and its subtests had to say, or how it panicked. Of a
// text of several lines it is the first three.
func (o *outcome) assertion(name string) string {
	var panicked string
	for _, candidate := range o.ordered(name) {
		for i, line := range candidate.output {
			if said.MatchString(line) {
				text := strings.TrimSpace(line)
				for _, more := range candidate.output[i+1 : min(i+3, len(candidate.output))] {
					if !strings.HasPrefix(more, "        ") || said.MatchString(more) {
						break
					}
					text += " " + strings.TrimSpace(more)
				}
				return text
			}
			if panicked == "" && (strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ")) {
				panicked = strings.TrimSpace(line)
			}
		}
	}
	return panicked
}

// ordered are a test and its subtests that didn't pass, the test itself first.
func (o *outcome) ordered(name string) []*tested {
	var all []*tested
	if t := o.tests[name]; t != nil {
		all = append(all, t)
	}
	for _, other := range slices.Sorted(maps.Keys(o.tests)) {
		if t := o.tests[other]; strings.HasPrefix(other, name+"/") && t.verdict != "pass" && t.verdict != "skip" {
			all = append(all, t)
		}
	}
	return all
}
