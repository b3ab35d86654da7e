package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// printer shows results as they come and sums them up.
type printer struct {
	out     io.Writer // the results
	notes   io.Writer // everything else
	json    bool
	verbose bool
	count   string // what there is to kill
	results []result
}

// line is a result for machines.
type line struct {
	Mutant   string   `json:"mutant"`
	Wrong    string   `json:"wrong"`
	Promises []int    `json:"promises"`
	Package  string   `json:"package"`
	Test     string   `json:"test"`
	Verdict  verdict  `json:"verdict"`
	Seconds  float64  `json:"seconds"`
	Said     string   `json:"said,omitempty"`
	Detail   string   `json:"detail,omitempty"`
	Files    []string `json:"files"`
}

func (p *printer) result(r result) {
	p.results = append(p.results, r)
	if p.json {
		l := line{
			Mutant: r.m.name, Wrong: r.m.wrong, Promises: r.m.promises, Package: r.m.pkg, Test: r.m.test,
			Verdict: r.verdict, Seconds: r.took.Round(time.Millisecond).Seconds(), Said: r.said, Detail: r.detail,
		}
		for _, c := range r.m.changes {
			if !slices.Contains(l.Files, c.file) {
				l.Files = append(l.Files, c.file)
			}
		}
		b, err := json.Marshal(l)
		if err != nil {
			panic(err) // strings and numbers
		}
		fmt.Fprintf(p.out, "%s\n", b)
		return
	}
	fmt.Fprintf(p.out, "%-8s  %s  %s  %s %s  %.1fs\n", r.verdict, r.m.name, r.m.held(), strings.TrimPrefix(r.m.pkg, "./"), r.m.test, r.took.Seconds())
	if p.verbose && r.said != "" {
		fmt.Fprintf(p.out, "          %s\n", shortened(r.said))
	}
}

// shortened keeps a line readable. The JSON has all of it.
func shortened(s string) string {
	const most = 240
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "..."
	}
	return s
}

// held names the promises.
func (m *mutant) held() string {
	words := make([]string, len(m.promises))
	for i, n := range m.promises {
		words[i] = fmt.Sprint(n)
	}
	if len(words) == 1 {
		return "promise " + words[0]
	}
	return "promises " + strings.Join(words, ",")
}

// relays counts mutants, and the wrong relays that they make: one that is held by several tests
// has a file for each of them.
func relays(root string, mutants []*mutant) (string, error) {
	different := map[string]bool{}
	for _, m := range mutants {
		files, err := m.apply(reader(root))
		if err != nil {
			return "", err
		}
		var all strings.Builder
		for _, file := range slices.Sorted(maps.Keys(files)) {
			fmt.Fprintf(&all, "%q %q ", file, files[file])
		}
		different[all.String()] = true
	}
	return fmt.Sprintf("%d mutants, %d different relays", len(mutants), len(different)), nil
}

// list shows what there is.
func list(w io.Writer, mutants []*mutant, count string) {
	for _, m := range mutants {
		fmt.Fprintf(w, "%s  %s  %s %s\n    %s\n", m.name, m.held(), strings.TrimPrefix(m.pkg, "./"), m.test, m.wrong)
	}
	fmt.Fprintf(w, "\n%s\n", count)
}

// summary prints the table of promises and what wasn't killed, and says whether all is well.
// Where only some mutants were asked for, a promise may be without any.
func (p *printer) summary(known []promise, all bool, took time.Duration) bool {
	ok := true
	t := tabwriter.NewWriter(p.notes, 0, 0, 2, ' ', 0)
	fmt.Fprintln(p.notes)
	fmt.Fprintln(t, "promise\t\tmutants\tkilled\tsurvived\terrors")
	for _, pr := range known {
		var n int
		count := map[verdict]int{}
		for _, r := range p.results {
			if slices.Contains(r.m.promises, pr.number) {
				count[r.verdict]++
				n++
			}
		}
		if n == 0 && !all {
			continue
		}
		note := ""
		if n == 0 {
			ok, note = false, "\tno mutant shows that a test holds it"
		}
		fmt.Fprintf(t, "%d\t%s\t%d\t%d\t%d\t%d%s\n", pr.number, pr.title, n, count[killed], count[survived], count[broken], note)
	}
	_ = t.Flush()
	var dead int
	for _, r := range p.results {
		if r.verdict == killed {
			dead++
			continue
		}
		ok = false
		fmt.Fprintf(p.notes, "\n%s  %s\n    %s\n    by %s %s: %s\n", r.verdict, r.m.path, r.m.wrong, r.m.pkg, r.m.test,
			strings.ReplaceAll(r.detail, "\n", "\n    "))
	}
	fmt.Fprintf(p.notes, "\n%d of %d mutants killed in %s: %s\n", dead, len(p.results), took.Round(time.Second), p.count)
	return ok && len(p.results) > 0
}
