package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code) //nolint:forbidigo // this is a main
}

// options are the flags.
type options struct {
	match               *regexp.Regexp
	all                 bool // no -run was given
	jobs, count         int
	timeout             time.Duration
	list, json, verbose bool
}

func parseFlags(args []string, stderr io.Writer) (options, error) {
	var o options
	set := flag.NewFlagSet("mutants", flag.ContinueOnError)
	set.SetOutput(stderr)
	match := set.String("run", "", "only the mutants whose names, as in wal/confirms-plus-one, match")
	set.IntVar(&o.jobs, "jobs", 2, "mutants at a time")
	set.IntVar(&o.count, "count", 1, "runs of each mutant, all of which have to fail")
	set.DurationVar(&o.timeout, "timeout", 2*time.Minute, "how long one mutant may take, with building it")
	set.BoolVar(&o.list, "list", false, "say what there is, and run nothing")
	set.BoolVar(&o.json, "json", false, "print an object for each mutant, on a line of its own")
	set.BoolVar(&o.verbose, "v", false, "print what the tests said")
	if err := set.Parse(args); err != nil {
		return o, err
	}
	if set.NArg() > 0 {
		return o, fmt.Errorf("unexpected %q: choose mutants with -run", set.Arg(0))
	}
	var err error
	if o.match, err = regexp.Compile(*match); err != nil {
		return o, fmt.Errorf("-run: %w", err)
	}
	o.all = *match == ""
	return o, nil
}

// command returns the exit code: 0 where every mutant is dead, 1 where not, 2 for a wrong call.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parseFlags(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		fmt.Fprintln(stderr, "mutants:", err)
		return 2
	}
	root, err := findRoot(ctx)
	if err == nil {
		var ok bool
		if ok, err = hunt(ctx, root, o, stdout, stderr); err == nil && ok {
			return 0
		}
	}
	if err != nil {
		fmt.Fprintln(stderr, "mutants:", err)
	}
	return 1
}

func findRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the root of the module: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

// hunt runs the chosen mutants of a module, and says whether all are dead.
func hunt(ctx context.Context, root string, o options, stdout, stderr io.Writer) (bool, error) {
	begin := time.Now()
	known, err := promises(root)
	if err != nil {
		return false, err
	}
	mutants, err := find(root, o.match)
	if err == nil {
		err = check(root, mutants, known)
	}
	switch {
	case err != nil:
		return false, err
	case len(mutants) == 0:
		return false, errors.New("no mutant matches; -list shows their names")
	}
	count, err := relays(root, mutants)
	if err != nil {
		return false, err
	}
	if o.list {
		list(stdout, mutants, count)
		return true, nil
	}
	p := &printer{count: count, out: stdout, notes: stdout, json: o.json, verbose: o.verbose}
	if o.json {
		p.notes = stderr
	}
	r := &runner{
		root: root, jobs: o.jobs, count: o.count, timeout: o.timeout, report: p.result,
		tell: func(format string, args ...any) { fmt.Fprintf(p.notes, format+"\n", args...) },
	}
	if err := r.run(ctx, mutants); err != nil {
		return false, err
	}
	return p.summary(known, o.all, time.Since(begin)), nil
}
