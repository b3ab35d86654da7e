package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// The module that the runner is proven on.
var tiny = map[string]string{
	"go.mod":             "module tiny\n\ngo 1.26\n",
	"docs/GUARANTEES.md": "# G\n\n| 9 | **Not here.** |\n\n## Promises\n\n| | promise |\n|---|---|\n| 1 | **No loss.** An event. |\n| 2 | **Order.** Of keys. |\n\n## Other\n\n| 8 | **Nor here.** |\n",
	"sum/sum.go":         "package sum\n\nimport \"time\"\n\nvar Pause = time.Hour\n\nfunc Add(a, b int) int {\n\treturn a + b\n}\n\nfunc Double(a int) int {\n\treturn a * 2\n}\n\nfunc Name() string {\n\treturn \"sum\"\n}\n",
	"sum/sum_test.go": `package sum

import "testing"

func TestAdd(t *testing.T) {
	t.Run("small", func(t *testing.T) {
		if got := Add(1, 2); got != 3 {
			t.Errorf("1 + 2 = %d", got)
		}
	})
	t.Run("none", func(t *testing.T) {
		if got := Add(0, 0); got != 0 {
			t.Errorf("0 + 0 = %d", got)
		}
	})
}

func TestDouble(t *testing.T) {
	if got := Double(2); got != 4 {
		t.Errorf("twice 2 = %d", got)
	}
}

func TestSkipped(t *testing.T) {
	t.Skip("not on this machine")
}

func TestApart(t *testing.T) {
	done := make(chan int)
	go func() { done <- 1 / Add(1, 0) }()
	<-done
}

var runs int

func TestNowAndThen(t *testing.T) {
	if runs++; runs%2 == 1 && Double(2) != 4 {
		t.Error("the first time")
	}
}
`,
	"cmd/main.go": "package main\n\nimport \"tiny/sum\"\n\nfunc main() {\n\tprintln(sum.Add(1, 2))\n}\n",
	"box/box_test.go": `package box

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestMain(m *testing.M) {
	if code := m.Run(); code != 0 || os.Getenv("SPOILED") != "" {
		os.Exit(1)
	}
}

func TestBinary(t *testing.T) {
	path := filepath.Join(t.TempDir(), "main")
	if out, err := exec.Command("go", "build", "-o", path, "tiny/cmd").CombinedOutput(); err != nil {
		t.Fatalf("build: %v: %s", err, out)
	}
	if out, err := exec.Command(path).CombinedOutput(); err != nil || string(out) != "3\n" {
		t.Fatalf("got %q, %v", out, err)
	}
}
`,
}

const (
	add    = "file: sum/sum.go\n--- right\n\treturn a + b\n--- wrong\n"
	double = "file: sum/sum.go\n--- right\n\treturn a * 2\n--- wrong\n"
)

// module writes the tiny module, with what is to be different, and its mutants.
func module(t *testing.T, other, mutants map[string]string) string {
	t.Helper()
	root := t.TempDir()
	files := maps.Clone(tiny)
	maps.Copy(files, other)
	for name, text := range mutants {
		files[mutantsDir+"/"+name+mutantsSuffix] = "Is wrong.\n\n" + text + "--- end\n"
	}
	for name, text := range files {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func needsGo(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("builds a module several times")
	}
	t.Setenv("GOFLAGS", "") // it may hold the overlay of a mutant of this project
	t.Setenv("GOWORK", "off")
}

// results runs the mutants and returns their lines by name, and whether all were dead.
func results(t *testing.T, root string, o options) (map[string]line, bool, string) {
	t.Helper()
	var out, notes bytes.Buffer
	o.json, o.jobs = true, 2
	if o.match == nil {
		o.match = regexp.MustCompile("")
	}
	if o.timeout == 0 {
		o.timeout = time.Minute
	}
	ok, err := hunt(t.Context(), root, o, &out, &notes)
	if err != nil {
		t.Fatalf("%v\n%s", err, &notes)
	}
	all := map[string]line{}
	for text := range strings.Lines(out.String()) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("%v in %q", err, text)
		}
		all[l.Mutant] = l
	}
	return all, ok, notes.String()
}
