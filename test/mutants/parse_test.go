package main

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

// good is the file that the cases of TestParseErrors spoil.
const good = `Counts to three,
and says four.

promise: 1, 4
test: ./wal TestCount/deep -short -tags=x
file: wal/a.go
--- right
	three()
	four()
--- wrong
--- end
--- right

	five()
--- wrong
	six()
--- end

file: wal/b.go
--- right
x
--- wrong
y
--- end
`

func TestParse(t *testing.T) {
	got, err := parse("wal/counts", "test/mutants/wal/counts.mutant", good)
	if err != nil {
		t.Fatal(err)
	}
	want := &mutant{
		name: "wal/counts", path: "test/mutants/wal/counts.mutant", wrong: "Counts to three, and says four.",
		promises: []int{1, 4}, pkg: "./wal", test: "TestCount/deep", flags: []string{"-short", "-tags=x"},
		changes: []change{
			{file: "wal/a.go", line: 7, right: "\tthree()\n\tfour()\n"},
			{file: "wal/a.go", line: 12, right: "\n\tfive()\n", wrong: "\tsix()\n"},
			{file: "wal/b.go", line: 20, right: "x\n", wrong: "y\n"},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestParseErrors(t *testing.T) {
	for _, c := range []struct {
		name     string
		from, to string // replaced in good
		line     int
		want     string
	}{
		{"empty", good, "", 1, "begin with a sentence"},
		{"no description", "Counts to three,\nand says four.\n", "", 1, "begin with a sentence"},
		{"no empty line", "four.\n\n", "four.\n", 3, "empty line"},
		{"unknown key", "promise:", "promises:", 4, `"promises: 1, 4" is none of`},
		{"space before a key", "promise:", " promise:", 4, "is none of"},
		{"text between", "\nfile: wal/b.go", "and then\nfile: wal/b.go", 18, `"and then" is none of`},
		{"promise in words", "1, 4", "1, four", 4, `got " four"`},
		{"promise zero", "1, 4", "0", 4, "needs numbers"},
		{"promise twice in the line", "1, 4", "1, 1", 4, "promise 1 stands there twice"},
		{"promise twice", "test: ", "promise: 2\ntest: ", 5, "promise stands there twice"},
		{"no promise", "promise: 1, 4\n", "", 23, "promise: is missing"},
		{"test twice", "file: wal/a.go", "test: ./wal TestOther\nfile: wal/a.go", 6, "test stands there twice"},
		{"no test", "test: ./wal TestCount/deep -short -tags=x\n", "", 23, "test: is missing"},
		{"test without its name", "test: ./wal TestCount/deep -short -tags=x", "test: ./wal", 5, "needs a package and a test"},
		{"package as a path", "./wal Test", "wal Test", 5, "begins with ./"},
		{"second test", " -short", " TestOther", 5, `got "TestOther"`},
		{"two files", "file: wal/b.go", "file: wal/b.go wal/c.go", 19, "needs one path"},
		{"block without a file", "file: wal/a.go\n", "", 6, "needs its file"},
		{"no right lines", "x\n--- wrong", "--- wrong", 23, "needs the right lines"},
		{"right lines of nothing", "x\n--- wrong", "\n--- wrong", 24, "needs the right lines"},
		{"the same", "y\n", "x\n", 24, "are the same"},
		{"no wrong", "x\n--- wrong\ny\n", "x\n", 22, `expected "--- wrong" before "--- end"`},
		{"no end", "y\n--- end\n", "y\n", 22, `has no "--- end"`},
		{"no end before the next", "five()\n--- wrong\n\tsix()\n--- end", "five()\n--- wrong\n\tsix()\n--- right", 17, `before "--- right"`},
		{"no block", good[strings.Index(good, "file: wal/a.go"):], "", 5, "nothing is wrong"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if n := strings.Count(good, c.from); n != 1 {
				t.Fatalf("%q stands %d times in the good file", c.from, n)
			}
			_, err := parse("a/b", "a/b.mutant", strings.Replace(good, c.from, c.to, 1))
			var bad *syntaxError
			if !errors.As(err, &bad) {
				t.Fatalf("got error %v", err)
			}
			if bad.path != "a/b.mutant" || bad.line != c.line || !strings.Contains(bad.what, c.want) {
				t.Errorf("got %q, want line %d and %q", err, c.line, c.want)
			}
		})
	}
}

func TestApply(t *testing.T) {
	for _, c := range []struct {
		name, text, right, wrong string
		want                     string // or a part of the error
		bad                      bool
	}{
		{"in the middle", "a\n\tb\nc\n", "\tb\n", "\tx\n\ty\n", "a\n\tx\n\ty\nc\n", false},
		{"the first line", "a\nb\n", "a\n", "x\n", "x\nb\n", false},
		{"taken out", "a\nb\n", "b\n", "", "a\n", false},
		{"several lines", "a\nb\nc\n", "a\nb\n", "x\n", "x\nc\n", false},
		{"not there", "a\n", "b\n", "x\n", "stand 0 times in f.go", true},
		{"twice", "a\nb\na\n", "a\n", "x\n", "stand 2 times in f.go", true},
		{"half a line at its end", "aa b\n", "b\n", "x\n", "stand 0 times", true},
		{"half a line at its beginning", "a b\n", "a\n", "x\n", "stand 0 times", true},
		{"other indentation", "\ta\n", "a\n", "x\n", "stand 0 times", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := &mutant{path: "a/b.mutant", changes: []change{{file: "f.go", line: 7, right: c.right, wrong: c.wrong}}}
			files, err := m.apply(func(string) (string, error) { return c.text, nil })
			switch {
			case c.bad && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "a/b.mutant:7: ")):
				t.Errorf("got error %v, want %q", err, c.want)
			case !c.bad && (err != nil || files["f.go"] != c.want):
				t.Errorf("got %q, %v, want %q", files["f.go"], err, c.want)
			}
		})
	}
}

// Blocks of one file build on each other.
func TestApplySeveral(t *testing.T) {
	m := &mutant{changes: []change{
		{file: "f.go", right: "a\n", wrong: "x\n"}, {file: "g.go", right: "a\n", wrong: "y\n"}, {file: "f.go", right: "b\n", wrong: "z\n"},
	}}
	files, err := m.apply(func(file string) (string, error) { return "a\nb\n" + file + "\n", nil })
	want := map[string]string{"f.go": "x\nz\nf.go\n", "g.go": "y\nb\ng.go\n"}
	if err != nil || !reflect.DeepEqual(files, want) {
		t.Errorf("got %q, %v, want %q", files, err, want)
	}
}
