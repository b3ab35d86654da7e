package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A process that was ended from outside says nothing about the mutant, whatever was printed before.
func TestKilledFromOutside(t *testing.T) {
	needsGo(t)
	root := module(t, map[string]string{"sum/dies_test.go": `package sum

import (
	"os"
	"testing"
)

func die(t *testing.T) {
	p, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	select {}
}

func TestInALine(t *testing.T) {
	if Add(1, 2) != 3 {
		os.Stdout.WriteString("half a line")
		die(t)
	}
}

func TestBehindACheck(t *testing.T) {
	if got := Add(1, 2); got != 3 {
		t.Errorf("1 + 2 = %d", got)
		die(t)
	}
}

func TestItsChild(t *testing.T) {
	if Add(1, 2) != 3 {
		os.Stdout.WriteString("signal: killed\n")
		t.Error("the child died")
	}
}
`}, map[string]string{
		"a/in-a-line":      "promise: 1, 2\ntest: ./sum TestInALine\n" + add + "\treturn a - b\n",
		"a/behind-a-check": "promise: 1, 2\ntest: ./sum TestBehindACheck\n" + add + "\treturn a - b\n",
		"a/its-child":      "promise: 1, 2\ntest: ./sum TestItsChild\n" + add + "\treturn a - b\n",
	})
	got, _, _ := results(t, root, options{all: true})
	for _, name := range []string{"a/in-a-line", "a/behind-a-check"} {
		if l := got[name]; l.Verdict != broken || !strings.Contains(l.Detail, "signal: killed") {
			t.Errorf("got %+v, want an error", l)
		}
	}
	if l := got["a/its-child"]; l.Verdict != killed {
		t.Errorf("a check that failed is no kill: %+v", l)
	}
}

// served are tests that need a server, which serves each of them a number of times.
var served = map[string]string{
	"internal/devenv/envtest/server.go": `package envtest

import (
	"os"
	"path/filepath"
	"testing"
)

func Server(t *testing.T, times int64, without func(...any)) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(os.Getenv("SERVED"), t.Name()), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("x"); err != nil {
		t.Fatal(err)
	}
	if info, err := f.Stat(); err != nil || info.Size() > times {
		without("waited a minute for the server", err)
	}
}

func Embedded(t *testing.T) { Server(t, 2, t.Fatal) }
`,
	"box/served_test.go": `package box

import (
	"testing"

	"tiny/internal/devenv/envtest"
	"tiny/sum"
)

func check(t *testing.T) {
	if got := sum.Add(1, 2); got != 3 {
		t.Errorf("1 + 2 = %d", got)
	}
}

type rig struct{ t *testing.T }

func (r rig) start(times int64, without func(...any)) { envtest.Server(r.t, times, without) }

func TestServed(t *testing.T) {
	rig{t}.start(3, t.Fatal)
	check(t)
}

func TestGoneAtOnce(t *testing.T) {
	rig{t}.start(1, t.Fatal)
	check(t)
}

func TestGoneLater(t *testing.T) {
	rig{t}.start(2, t.Fatal)
	check(t)
}

func TestNotAgain(t *testing.T) {
	rig{t}.start(2, t.Skip)
	check(t)
}

func TestEmbedded(t *testing.T) {
	envtest.Embedded(t)
	check(t)
}
`,
}

// A test that uses servers kills only what it would pass without the mutant, at that time.
func TestRedOnTheRightCodeToo(t *testing.T) {
	needsGo(t)
	cases := map[string]struct {
		test    string
		verdict verdict
		want    string
		runs    int
	}{
		"a/is-to-blame":  {"TestServed", killed, "1 + 2 = -1", 3},
		"a/gone-at-once": {"TestGoneAtOnce", broken, "the test is red on the right code too: served_test.go", 3},
		"a/gone-later":   {"TestGoneLater", broken, "waited a minute for the server", 3},
		"a/not-again":    {"TestNotAgain", broken, "the test has to pass on the right code too: the test was skipped", 3},
		"a/stays-inside": {"TestEmbedded", killed, "1 + 2 = -1", 2},
	}
	mutants := map[string]string{}
	for name, c := range cases {
		mutants[name] = "promise: 1, 2\ntest: ./box " + c.test + "\n" + add + "\treturn a - b\n"
	}
	dir := t.TempDir()
	t.Setenv("SERVED", dir)
	got, _, _ := results(t, module(t, served, mutants), options{all: true})
	for name, c := range cases {
		if l := got[name]; l.Verdict != c.verdict || !strings.Contains(l.Said+l.Detail, c.want) {
			t.Errorf("got %+v, want %s with %q", l, c.verdict, c.want)
		}
		if text, err := os.ReadFile(filepath.Join(dir, c.test)); err != nil || len(text) != c.runs {
			t.Errorf("%s ran %d times, want %d: %v", c.test, len(text), c.runs, err)
		}
	}
}

// Whether a test leaves its process is seen in its source, not in a list.
func TestLeavesProcess(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a_test.go": `package a

import (
	"testing"

	relay "x/test/lab"
	"x/internal/devenv"
	"x/internal/devenv/envtest"
)

type world struct{}

func (w world) Open()           { relay.Start() }
func (w world) look(server int) {}

type quiet struct{ cluster *devenv.Embedded }

func (q quiet) open() { envtest.Embedded() }

var shared = envtest.Postgres

func server() { shared() }

func TestMain(m *testing.M) { envtest.Main(m) }
`,
		"b_test.go": `package a

import (
	"os/exec"
	"testing"
)

func TestDirectly(t *testing.T)  { exec.Command("x") }
func TestByAHelper(t *testing.T) { server() }
func TestByAMethod(t *testing.T) { world{}.Open() }
func TestByAValue(t *testing.T)  { use(world{}) }
func TestEmbedded(t *testing.T)  { quiet{}.open() }
func TestLocalName(t *testing.T) { server := 1; _ = server }
func TestNothing(t *testing.T)   { exec := 1; _ = exec }
func use(any)                    {}
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for test, want := range map[string]bool{
		"TestDirectly": true, "TestByAHelper": true, "TestByAHelper/sub": true, "TestByAMethod": true, "TestByAValue": true,
		"TestEmbedded": false, "TestLocalName": false, "TestNothing": false,
	} {
		if got, err := leavesProcess(dir, test); err != nil || got != want {
			t.Errorf("%s: got %v, %v, want %v", test, got, err, want)
		}
	}
}
