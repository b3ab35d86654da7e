package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// Each mutant is well-formed, and the code that it spoils is still there. Nothing is built.
func TestMutantsApply(t *testing.T) {
	root, err := findRoot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	known, err := promises(root)
	if err != nil {
		t.Fatal(err)
	}
	all, err := find(root, regexp.MustCompile(""))
	if err != nil {
		t.Fatal(err)
	}
	if err := check(root, all, known); err != nil {
		t.Error(err)
	}
	held := map[int]bool{}
	for _, m := range all {
		for _, n := range m.promises {
			held[n] = true
		}
	}
	for _, p := range known {
		if !held[p.number] {
			t.Errorf("promise %d, %s, has no mutant", p.number, p.title)
		}
	}
}

func TestVerdicts(t *testing.T) {
	needsGo(t)
	cases := map[string]struct {
		text    string
		verdict verdict
		want    string // in what the test said, or in why it isn't dead
	}{
		"a/killed":            {"promise: 1\ntest: ./sum TestAdd\n" + add + "\treturn a - b\n", killed, "sum_test.go:8: 1 + 2 = -1"},
		"a/by-a-subtest":      {"promise: 1\ntest: ./sum TestAdd/none\n" + add + "\treturn a + b + 1\n", killed, "sum_test.go:13: 0 + 0 = 1"},
		"a/by-a-panic":        {"promise: 1\ntest: ./sum TestAdd\n" + add + "\tpanic(\"cannot add\")\n", killed, "panic: cannot add"},
		"a/by-a-panic-apart":  {"promise: 1\ntest: ./sum TestApart\n" + add + "\treturn a - b - 1\n", killed, "panic: runtime error: integer divide by zero"},
		"a/in-a-binary":       {"promise: 2\ntest: ./box TestBinary\n" + add + "\treturn a - b\n", killed, `got "-1\n"`},
		"a/survives":          {"promise: 1\ntest: ./sum TestDouble\n" + double + "\treturn a + a\n", survived, "the test passed"},
		"a/by-another":        {"promise: 1\ntest: ./sum TestDouble\n" + add + "\treturn a - b\n", survived, "the test passed"},
		"a/by-another-sub":    {"promise: 1\ntest: ./sum TestAdd/none\n" + add + "\treturn a - b\n", survived, "the test passed"},
		"a/not-compiling":     {"promise: 1\ntest: ./sum TestAdd\n" + add + "\treturn a +\n", broken, "doesn't compile"},
		"a/binary-not-built":  {"promise: 1\ntest: ./box TestBinary\n" + add + "\treturn \"\"\n", broken, "doesn't compile"},
		"a/breaks-a-caller":   {"promise: 1\ntest: ./box TestBinary\nfile: sum/sum.go\n--- right\nfunc Add(a, b int) int {\n--- wrong\nfunc Add(a, b, _ int) int {\n", broken, "doesn't compile"},
		"a/breaks-its-test":   {"promise: 1\ntest: ./sum TestAdd\nfile: sum/sum.go\n--- right\nfunc Add(a, b int) int {\n--- wrong\nfunc Add(a, b, _ int) int {\n", broken, "doesn't compile with its test"},
		"a/skipped":           {"promise: 1\ntest: ./sum TestSkipped\n" + add + "\treturn a - b\n", broken, "skipped on the right code: sum_test.go:25: not on this machine"},
		"a/no-such-subtest":   {"promise: 1\ntest: ./sum TestAdd/large\n" + add + "\treturn a - b\n", broken, "didn't run on the right code"},
		"a/breaks-a-constant": {"promise: 1\ntest: ./sum TestAdd\nfile: sum/sum.go\n--- right\n\treturn \"sum\"\n--- wrong\n\treturn \"difference\"\n", survived, "the test passed"},
	}
	mutants := map[string]string{}
	for name, c := range cases {
		mutants[name] = c.text
	}
	root := module(t, nil, mutants)
	got, ok, notes := results(t, root, options{all: true})
	if ok {
		t.Error("all is well, with mutants that live")
	}
	for name, c := range cases {
		l := got[name]
		if l.Verdict != c.verdict || !strings.Contains(l.Said+l.Detail, c.want) || c.verdict == killed && l.Said == "" {
			t.Errorf("%s: got %+v, want %s with %q", name, l, c.verdict, c.want)
		}
	}
	if len(got) != len(cases) || !strings.Contains(notes, "5 of 15 mutants killed in ") || !strings.Contains(notes, ": 15 mutants, 9 different relays") {
		t.Errorf("got %d results of %d, and\n%s", len(got), len(cases), notes)
	}
	// The tree that mutants are made from isn't touched.
	if text, err := os.ReadFile(filepath.Join(root, "sum/sum.go")); err != nil || string(text) != tiny["sum/sum.go"] {
		t.Errorf("the source is now %q, %v", text, err)
	}
}

// What GOFLAGS holds goes on to hold beside the overlay; another overlay can't.
func TestGoflags(t *testing.T) {
	needsGo(t)
	tagged := "//go:build tagged\n\npackage sum\n\nimport \"testing\"\n\nfunc TestTagged(t *testing.T) {\n\tif Add(1, 2) != 3 {\n\t\tt.Error(\"wrong\")\n\t}\n}\n"
	root := module(t, map[string]string{"sum/tagged_test.go": tagged, "none.json": "{}"}, map[string]string{
		"a/b": "promise: 1, 2\ntest: ./sum TestTagged\n" + add + "\treturn a - b\n",
	})
	if got, _, _ := results(t, root, options{}); !strings.Contains(got["a/b"].Detail, "didn't run on the right code") {
		t.Errorf("without the tag: %+v", got)
	}
	t.Setenv("GOFLAGS", "-tags=tagged")
	if got, ok, _ := results(t, root, options{}); !ok {
		t.Errorf("with the tag: %+v", got)
	}
	t.Setenv("GOFLAGS", "-tags=tagged -overlay="+filepath.Join(root, "none.json"))
	if got, _, _ := results(t, root, options{}); !strings.Contains(got["a/b"].Detail, "holds an -overlay already") {
		t.Errorf("with an overlay: %+v", got)
	}
}

// A test that fails on a mutant only now and then doesn't hold the promise.
func TestCount(t *testing.T) {
	needsGo(t)
	text := "promise: 1, 2\ntest: ./sum TestNowAndThen\n" + double + "\treturn a\n"
	root := module(t, nil, map[string]string{"a/b": text})
	for count, want := range map[int]verdict{1: killed, 2: survived, 3: survived} {
		if got, ok, _ := results(t, root, options{all: true, count: count}); got["a/b"].Verdict != want || ok != (want == killed) {
			t.Errorf("%d runs: got %+v", count, got)
		}
	}
}

// A test that is red on the right code kills nothing.
func TestRedBaseline(t *testing.T) {
	needsGo(t)
	root := module(t, map[string]string{"sum/sum_test.go": strings.Replace(tiny["sum/sum_test.go"], "got != 4", "got != 5", 1)}, map[string]string{
		"a/killed": "promise: 1, 2\ntest: ./sum TestAdd\n" + add + "\treturn a - b\n",
		"a/red":    "promise: 1\ntest: ./sum TestDouble\n" + double + "\treturn a\n",
	})
	var out, notes bytes.Buffer
	_, err := hunt(t.Context(), root, options{match: regexp.MustCompile(""), jobs: 2, timeout: time.Minute, json: true}, &out, &notes)
	if err == nil || !strings.Contains(err.Error(), "./sum TestDouble fails on the right code, so it kills nothing: sum_test.go:20: twice 2 = 4") {
		t.Errorf("got error %v", err)
	}
	if out.Len() > 0 {
		t.Errorf("went on to the mutants: %s", &out)
	}
}

// A process that fails beside its tests proves nothing either, and neither does a test that
// hangs.
func TestBesideTheTest(t *testing.T) {
	needsGo(t)
	root := module(t, nil, map[string]string{
		"a/hangs": "promise: 1, 2\ntest: ./sum TestAdd\n" + add + "\t<-time.After(Pause)\n\treturn a\n",
	})
	got, ok, _ := results(t, root, options{all: true, timeout: 5 * time.Second})
	if l := got["a/hangs"]; ok || l.Verdict != broken || !strings.Contains(l.Detail, "didn't end within 5s") {
		t.Errorf("got %+v", l)
	}
	t.Setenv("SPOILED", "1")
	root = module(t, nil, map[string]string{"a/b": "promise: 1, 2\ntest: ./box TestBinary\n" + add + "\treturn a - b\n"})
	_, err := hunt(t.Context(), root, options{match: regexp.MustCompile(""), timeout: time.Minute}, &bytes.Buffer{}, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "./box fails on the right code") {
		t.Errorf("got error %v", err)
	}
}

// Without -run every promise has to have a mutant, with it only what was asked for counts.
func TestPromiseWithoutMutant(t *testing.T) {
	needsGo(t)
	root := module(t, nil, map[string]string{
		"a/killed": "promise: 1\ntest: ./sum TestAdd\n" + add + "\treturn a - b\n",
		"a/lives":  "promise: 1\ntest: ./sum TestAdd\n" + double + "\treturn a\n",
	})
	if err := os.Remove(filepath.Join(root, mutantsDir, "a/lives.mutant")); err != nil {
		t.Fatal(err)
	}
	if got, ok, notes := results(t, root, options{all: true}); ok || len(got) != 1 || !strings.Contains(notes, "no mutant shows that a test holds it") {
		t.Errorf("all is well: %v, %v\n%s", ok, got, notes)
	}
	if got, ok, notes := results(t, root, options{match: regexp.MustCompile("kill")}); !ok || len(got) != 1 {
		t.Errorf("all is well: %v, %v\n%s", ok, got, notes)
	}
}

// What can be seen without building is refused before anything runs.
func TestCheck(t *testing.T) {
	root := module(t, nil, map[string]string{
		"a/good":         "promise: 1, 2\ntest: ./sum TestAdd\n" + add + "\treturn a - b\n",
		"a/promise":      "promise: 1, 8\ntest: ./sum TestAdd\n" + add + "\treturn a - b\n",
		"a/package":      "promise: 1\ntest: ./minus TestAdd\n" + add + "\treturn a - b\n",
		"a/test":         "promise: 1\ntest: ./sum TestSubtract\n" + add + "\treturn a - b\n",
		"a/drift":        "promise: 1\ntest: ./sum TestAdd\nfile: sum/sum.go\n--- right\n\treturn b + a\n--- wrong\n\treturn 0\n",
		"a/of-a-test":    "promise: 1\ntest: ./sum TestAdd\nfile: sum/sum_test.go\n--- right\n\tt.Skip(\"not on this machine\")\n--- wrong\n",
		"a/outside":      "promise: 1\ntest: ./sum TestAdd\nfile: ../sum.go\n--- right\nx\n--- wrong\n",
		"a/syntax":       "promise: 1\n",
		"a/Not_in_kebab": "",
	})
	_, err := find(root, regexp.MustCompile(""))
	for _, want := range []string{"a/syntax.mutant:4: ", "a/Not_in_kebab.mutant: expected a file named in lower case"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %s", err, want)
		}
	}
	for _, name := range []string{"syntax", "Not_in_kebab"} {
		if err := os.Remove(filepath.Join(root, mutantsDir, "a", name+mutantsSuffix)); err != nil {
			t.Fatal(err)
		}
	}
	all, err := find(root, regexp.MustCompile(""))
	if err != nil {
		t.Fatal(err)
	}
	known, err := promises(root)
	if want := []promise{{1, "No loss"}, {2, "Order"}}; err != nil || !slices.Equal(known, want) {
		t.Fatalf("got %v, %v, want %v", known, err, want)
	}
	err = check(root, all, known)
	if err == nil {
		t.Fatal("all is well")
	}
	for _, want := range []string{
		"promise.mutant: promise 8 isn't in the table", "package.mutant: look for the tests of ./minus", "test.mutant: ./sum has no test TestSubtract",
		"drift.mutant:6: the right lines stand 0 times in sum/sum.go", "of-a-test.mutant:6: sum/sum_test.go isn't a file of the relay",
		"outside.mutant:6: ../sum.go isn't a file of the relay",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "good.mutant") {
		t.Errorf("a good one is refused: %v", err)
	}
}

// A property that fails on a mutant as it has to leaves no trace in the tree.
func TestRapidFlags(t *testing.T) {
	root, err := findRoot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]bool{"shard": true, "test/mutants": false} {
		flags, err := rapidFlags(filepath.Join(root, dir))
		if err != nil || slices.Contains(flags, "-rapid.nofailfile") != want {
			t.Errorf("%s: %q, %v", dir, flags, err)
		}
	}
}

func TestPattern(t *testing.T) {
	if got, want := pattern([]string{"TestA", "TestB/x|y/z.1"}), `^TestA$|^TestB$/^x\|y$/^z\.1$`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestCommand(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"-list", "-run", "^shard/"}, 0, "shard/signed-modulo  promise 2  shard TestPartitionDocumented"},
		{[]string{"-list", "-run", "^shard/signed-modulo$"}, 0, "\n1 mutants, 1 different relays\n"},
		{[]string{"-run", "("}, 2, "missing closing )"},
		{[]string{"-run", "no/such-mutant"}, 1, "no mutant matches"},
		{[]string{"wal/x"}, 2, "choose mutants with -run"},
		{[]string{"-nope"}, 2, "not defined"},
		{[]string{"-h"}, 0, "-timeout"},
	} {
		var out bytes.Buffer
		if code := command(t.Context(), c.args, &out, &out); code != c.code || !strings.Contains(out.String(), c.want) {
			t.Errorf("%q: got code %d and %q", c.args, code, out.String())
		}
	}
}
