package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"sort"
	"strings"
	"text/tabwriter"
)

// event is a line of `go test -json`, see `go doc test2json`.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

type suite struct {
	name                    string
	passed, failed, skipped int
	seconds                 float64
	state                   string
	servers                 map[string]bool
	output                  map[string][]string // by test; kept until it passes
	complaints              []string
}

func main() {
	noskip := flag.Bool("noskip", false, "a skipped test is a failure")
	show := flag.String("show", "^$", "print what tests whose names match have to say, also when they pass")
	flag.Parse()
	shown, err := regexp.Compile(*show)
	if err != nil {
		fmt.Fprintln(os.Stderr, "suites: -show:", err)
		os.Exit(2)
	}
	suites, err := read(os.Stdin, shown)
	if err != nil {
		fmt.Fprintln(os.Stderr, "suites: read test output:", err)
		os.Exit(1)
	}
	if !report(os.Stdout, suites, *noskip) {
		os.Exit(1)
	}
}

func read(r io.Reader, shown *regexp.Regexp) ([]*suite, error) {
	byName := map[string]*suite{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Println(lines.Text()) // what isn't JSON comes from the go command itself
			continue
		}
		if e.Package == "" {
			fmt.Print(e.Output) // a build failure
			continue
		}
		s := byName[e.Package]
		if s == nil {
			s = &suite{name: e.Package, servers: map[string]bool{}, output: map[string][]string{}}
			byName[e.Package] = s
		}
		s.add(e, shown)
	}
	all := make([]*suite, 0, len(byName))
	for _, s := range byName {
		all = append(all, s)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].name < all[j].name })
	return all, lines.Err()
}

func (s *suite) add(e event, shown *regexp.Regexp) {
	switch e.Action {
	case "output":
		s.output[e.Test] = append(s.output[e.Test], e.Output)
		// Suites that start or find a server say so at their end.
		if _, server, ok := strings.Cut(e.Output, "envtest: used "); ok {
			server, _, _ = strings.Cut(server, ",")
			server, _, _ = strings.Cut(server, " at ")
			s.servers[strings.TrimSpace(server)] = true
		}
		return
	case "pass", "fail", "skip":
	default:
		return
	}
	if e.Test == "" {
		s.state, s.seconds = e.Action, e.Elapsed
		if e.Action == "fail" {
			s.complaints = append(s.complaints, strings.Join(s.output[""], ""))
		}
		return
	}
	switch e.Action {
	case "pass":
		s.passed++
	case "fail":
		s.failed++
	case "skip":
		s.skipped++
	}
	if e.Action != "pass" || shown.MatchString(e.Test) {
		s.complaints = append(s.complaints, strings.Join(s.output[e.Test], ""))
	}
	delete(s.output, e.Test)
}

func report(w io.Writer, suites []*suite, noskip bool) bool {
	var passed, failed, skipped int
	ok := true
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "suite\tpassed\tfailed\tskipped\tseconds\tservers")
	for _, s := range suites {
		if s.state == "skip" && s.passed+s.failed+s.skipped == 0 {
			continue // a package without tests
		}
		passed, failed, skipped = passed+s.passed, failed+s.failed, skipped+s.skipped
		ok = ok && s.state == "pass"
		servers := make([]string, 0, len(s.servers))
		for v := range s.servers {
			servers = append(servers, v)
		}
		sort.Strings(servers)
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%.1f\t%s\n", s.name, s.passed, s.failed, s.skipped, s.seconds, strings.Join(servers, ", "))
	}
	_ = t.Flush()
	for _, s := range suites {
		for _, c := range s.complaints {
			fmt.Fprintf(w, "\n--- %s\n%s", s.name, c)
		}
	}
	fmt.Fprintf(w, "\n%d passed, %d failed, %d skipped\n", passed, failed, skipped)
	if noskip && skipped > 0 {
		fmt.Fprintln(w, "a skipped test proves nothing: here every server must be at hand")
		ok = false
	}
	return ok && failed == 0 && passed > 0
}
