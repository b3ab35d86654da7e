package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// verdict is what became of a mutant.
type verdict string

const (
	killed   verdict = "killed"
	survived verdict = "survived"
	broken   verdict = "error" // it proves nothing: it doesn't compile, its test didn't run, or something else ended that
)

type result struct {
	m       *mutant
	verdict verdict
	took    time.Duration
	detail  string // why, where it wasn't killed
	said    string // the assertion that failed
}

// runner runs mutants of a module.
type runner struct {
	root    string
	jobs    int
	count   int                  // of runs of each mutant; all of them have to fail
	timeout time.Duration        // of one mutant, with building it
	tell    func(string, ...any) // progress of the baseline
	report  func(result)         // each mutant as it ends; one call at a time
	deps    map[string]map[string]bool
}

// run runs the baseline and then the mutants. The error says that nothing can be proven: a test is
// red on the right code, or the go command doesn't work.
func (r *runner) run(ctx context.Context, mutants []*mutant) error {
	useless, err := r.baseline(ctx, mutants)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	r.each(ctx, len(mutants), func(i int) {
		m := mutants[i]
		begin := time.Now()
		res := result{verdict: broken, detail: useless[m]}
		if res.detail == "" {
			res = r.one(ctx, m)
		}
		res.m, res.took = m, time.Since(begin)
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() == nil {
			r.report(res)
		}
	})
	return ctx.Err()
}

// each calls do for 0 to n-1, as many at a time as there are jobs.
func (r *runner) each(ctx context.Context, n int, do func(i int)) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, max(r.jobs, 1))
	for i := range n {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-slots }()
			do(i)
		})
	}
	wg.Wait()
}

// group are the mutants whose tests run together on the right code.
type group struct {
	pkg     string
	flags   []string
	mutants []*mutant
}

func (g *group) names() []string {
	var names []string
	for _, m := range g.mutants {
		if !slices.Contains(names, m.test) {
			names = append(names, m.test)
		}
	}
	return names
}

func groups(mutants []*mutant) []*group {
	var all []*group
	for _, m := range mutants {
		i := slices.IndexFunc(all, func(g *group) bool { return g.pkg == m.pkg && slices.Equal(g.flags, m.flags) })
		if i < 0 {
			i = len(all)
			all = append(all, &group{pkg: m.pkg, flags: m.flags})
		}
		all[i].mutants = append(all[i].mutants, m)
	}
	return all
}

// baseline runs every named test on the right code. A test that is red there kills nothing, so
// that is an error; one that doesn't run makes its mutants useless, with the reason.
func (r *runner) baseline(ctx context.Context, mutants []*mutant) (map[*mutant]string, error) {
	r.deps = map[string]map[string]bool{}
	useless := map[*mutant]string{}
	all := groups(mutants)
	bad := make([]error, len(all))
	var mu sync.Mutex
	r.each(ctx, len(all), func(i int) {
		g := all[i]
		begin := time.Now()
		deps, err := gocmd{root: r.root}.dependencies(ctx, g.pkg)
		var why map[*mutant]string
		if err == nil {
			why, err = r.right(ctx, g)
		}
		mu.Lock()
		defer mu.Unlock()
		r.deps[g.pkg], bad[i] = deps, err
		for m, text := range why {
			useless[m] = text
		}
		if err == nil {
			r.tell("baseline  %s  tests: %d  %.1fs", g.pkg, len(g.names()), time.Since(begin).Seconds())
		}
	})
	return useless, errors.Join(append(bad, ctx.Err())...)
}

// right runs the tests of a group on the right code.
func (r *runner) right(ctx context.Context, g *group) (map[*mutant]string, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout*time.Duration(len(g.names())))
	defer cancel()
	o, err := gocmd{root: r.root}.test(ctx, 1, g.pkg, g.names(), g.flags)
	switch {
	case err != nil:
		return nil, fmt.Errorf("run the tests of %s on the right code: %w", g.pkg, err)
	case !o.built:
		return nil, fmt.Errorf("%s doesn't compile:\n%s", g.pkg, o.buildError)
	}
	useless := map[*mutant]string{}
	var red []error
	for _, m := range g.mutants {
		switch t := o.tests[m.test]; {
		case t == nil:
			useless[m] = "the test didn't run on the right code: is there one of that name?"
		case t.verdict == "skip":
			useless[m] = "the test is skipped on the right code: " + o.assertion(m.test)
		case t.verdict != "pass":
			red = append(red, fmt.Errorf("%s %s fails on the right code, so it kills nothing: %s", m.pkg, m.test, o.assertion(m.test)))
		}
	}
	if red == nil && o.failed {
		red = append(red, fmt.Errorf("%s fails on the right code:\n%s", g.pkg, o.other))
	}
	return useless, errors.Join(red...)
}

// one builds a mutant and runs its test.
func (r *runner) one(ctx context.Context, m *mutant) result {
	o, err := limited(ctx, r.timeout, func(ctx context.Context) (*outcome, error) { return r.mutated(ctx, m) })
	if err != nil {
		return result{verdict: broken, detail: err.Error()}
	}
	res := o.judge(m.test)
	if res.verdict != killed {
		return res
	}
	if why, err := r.again(ctx, m); err != nil || why != "" {
		return result{verdict: broken, detail: cmp.Or(why, fmt.Sprint("run the test on the right code too: ", err)) + "\non the mutant it said: " + res.said}
	}
	return res
}

// again runs a test that turned red once more, on the right code, and returns what speaks against
// taking that for a kill. Only a test that leaves its process can be red for another reason, such
// as a server that didn't start on a busy machine. It is run directly after each kill, although
// others have the same test: a result from another time says nothing about this machine then.
func (r *runner) again(ctx context.Context, m *mutant) (string, error) {
	outside, err := leavesProcess(filepath.Join(r.root, filepath.FromSlash(m.pkg)), m.test)
	if err != nil || !outside {
		return "", err
	}
	o, err := limited(ctx, r.timeout, func(ctx context.Context) (*outcome, error) {
		return gocmd{root: r.root}.test(ctx, 1, m.pkg, []string{m.test}, m.flags)
	})
	if err != nil {
		return "", err
	}
	switch res := o.judge(m.test); {
	case res.verdict == survived && !o.failed:
		return "", nil
	case res.verdict == killed:
		return "the test is red on the right code too: " + res.said, nil
	default:
		return "the test has to pass on the right code too: " + res.detail, nil
	}
}

// limited runs a test for as long as one may take.
func limited(ctx context.Context, timeout time.Duration, run func(context.Context) (*outcome, error)) (*outcome, error) {
	within, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	o, err := run(within)
	if errors.Is(within.Err(), context.DeadlineExceeded) {
		return nil, fmt.Errorf("the test didn't end within %s: a test that hangs says nothing about what is wrong", timeout)
	}
	return o, err
}

func (r *runner) mutated(ctx context.Context, m *mutant) (_ *outcome, err error) {
	files, err := m.apply(reader(r.root))
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	overlay, err := writeOverlay(r.root, dir, files)
	if err != nil {
		return nil, err
	}
	g := gocmd{root: r.root, overlay: overlay}
	// A test that builds the relay fails where that doesn't compile, and would seem to kill it.
	if !r.imports(m.pkg, files) {
		if err := g.compile(ctx, "./..."); err != nil {
			return nil, fmt.Errorf("it doesn't compile: %w", err)
		}
	}
	return g.test(ctx, max(r.count, 1), m.pkg, []string{m.test}, m.flags)
}

// imports says whether a test is built from all that a mutant changes, so that it doesn't compile
// either where the mutant doesn't.
func (r *runner) imports(pkg string, files map[string]string) bool {
	for file := range files {
		if !strings.HasSuffix(file, ".go") || !r.deps[pkg][path.Dir(file)] {
			return false
		}
	}
	return true
}

// writeOverlay writes the changed files and the overlay that puts them in the place of the right
// ones, and returns its path.
func writeOverlay(root, dir string, files map[string]string) (string, error) {
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for file, text := range files {
		// The names stay, since messages and build constraints use them.
		place := filepath.Join(dir, fmt.Sprint(len(overlay.Replace)), filepath.Base(file))
		if err := os.MkdirAll(filepath.Dir(place), 0o700); err != nil {
			return "", err
		}
		if err := os.WriteFile(place, []byte(text), 0o600); err != nil {
			return "", err
		}
		overlay.Replace[filepath.Join(root, filepath.FromSlash(file))] = place
	}
	b, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	list := filepath.Join(dir, "overlay.json")
	return list, os.WriteFile(list, b, 0o600)
}

// judge says what became of a mutant. Only the named test kills it.
func (o *outcome) judge(name string) result {
	t := o.tests[name]
	switch {
	case !o.built:
		return result{verdict: broken, detail: "it doesn't compile with its test:\n" + o.buildError}
	case o.signal != "":
		return result{verdict: broken, detail: "the process was ended from outside, perhaps for want of memory, which says nothing about the mutant: " + o.signal}
	case t == nil:
		return result{verdict: broken, detail: "the test didn't run:\n" + o.other}
	case t.verdict == "skip":
		return result{verdict: broken, detail: "the test was skipped: " + o.assertion(name)}
	case t.verdict == "" && !o.failed:
		return result{verdict: broken, detail: "the test has no verdict:\n" + o.other}
	case t.verdict != "pass" && t.passed > 0:
		return result{verdict: survived, detail: fmt.Sprintf("the test fails only now and then, and passed %d times", t.passed)}
	case t.verdict == "pass" && o.failed:
		return result{verdict: survived, detail: "the test passed; something else in its package failed, or it fails only now and then:\n" + o.other}
	case t.verdict == "pass":
		return result{verdict: survived, detail: "the test passed"}
	}
	// Failed, or it ran when the process died of a panic.
	return result{verdict: killed, said: cmp.Or(o.assertion(name), "the process ended while the test ran")}
}
