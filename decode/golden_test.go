package decode_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/decode"
	"github.com/cdc-relay/cdc-relay/wal"
	"github.com/cdc-relay/cdc-relay/wal/waltest"
)

// -rewrite writes what the decoder says now over the .want files. They are the only record
// of what it ought to say: read and understand every line of the diff before you commit it. A
// change of a sequence number or of a commit LSN is a change of the events' identity, and is
// never right.
var rewrite = flag.Bool("rewrite", false, "write testdata/*/*.want anew; read the diff before you commit it")

// versions are the servers with recordings. PG 15 is the first that leaves out empty
// transactions, 18 the newest.
var versions = []string{"pg15", "pg18"}

func TestGolden(t *testing.T) {
	for _, version := range versions {
		for _, rec := range recordings {
			t.Run(version+"/"+rec.name, func(t *testing.T) {
				base := filepath.Join("testdata", version, rec.name)
				frames, err := waltest.ReadFile(base + ".frames")
				if err != nil {
					t.Fatalf("%v (TestRecord makes it)", err)
				}
				changes := feed(t, decode.New(), frames...)
				got := trace(rec.about, changes)
				if *rewrite {
					if err := os.WriteFile(base+".want", []byte(got), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(base + ".want")
				if err != nil {
					t.Fatal(err)
				}
				if d := firstDifference(got, string(want)); d != "" {
					t.Error(d)
				}
				if rec.shows != nil {
					rec.shows(t, changes)
				}
			})
		}
	}
}

// Every recording agrees with pglogrepl, which was written by others, field by field.
func TestReference(t *testing.T) {
	for _, version := range versions {
		for _, rec := range recordings {
			t.Run(version+"/"+rec.name, func(t *testing.T) {
				frames, err := waltest.ReadFile(filepath.Join("testdata", version, rec.name+".frames"))
				if err != nil {
					t.Fatal(err)
				}
				compareAll(t, frames)
			})
		}
	}
}

// compareAll decodes frames and compares each change with the reference.
func compareAll(t testing.TB, frames []wal.Frame) {
	t.Helper()
	d, ref := decode.New(), newReference()
	for i, f := range frames {
		c, err := d.Decode(f)
		if err != nil {
			t.Fatalf("frame %d: %v", i, err)
		}
		if d := ref.compare(f, c); d != "" {
			t.Fatalf("frame %d (%.40q): %s", i, f.Data, d)
		}
	}
}

// Files that no recording names would be checked by nothing.
func TestNoStrayRecordings(t *testing.T) {
	names := map[string]bool{}
	for _, version := range versions {
		for _, rec := range recordings {
			names[filepath.Join("testdata", version, rec.name+".frames")] = true
			names[filepath.Join("testdata", version, rec.name+".want")] = true
		}
	}
	found, err := filepath.Glob("testdata/pg*/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if !names[f] {
			t.Errorf("%s belongs to no recording", f)
		}
	}
}

// firstDifference shows the first line in which two traces differ.
func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		switch {
		case i >= len(g):
			return "missing: " + w[i]
		case i >= len(w):
			return "too much: " + g[i]
		case g[i] != w[i]:
			return "got:  " + g[i] + "\nwant: " + w[i]
		}
	}
	return ""
}
