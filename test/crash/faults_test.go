package crash

import (
	"flag"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/test/lab"
)

var onlyFaults = flag.String("faults", "", "only the faults of TestFaults whose name matches")

// defaultBuffer is kafka.buffer_bytes where it isn't set.
const defaultBuffer = 16 << 20

// chosen are the faults whose name matches, of which there must be one.
func chosen(pattern string) ([]fault, error) {
	only, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("-faults: %w", err)
	}
	var all []fault
	for _, f := range faults() {
		if only.MatchString(f.name) {
			all = append(all, f)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("-faults: no fault matches %q; there are:\n  %s", pattern, strings.ReplaceAll(names(faults()), " + ", "\n  "))
	}
	return all, nil
}

// TestFaults strikes with each fault once, under traffic, on one set of servers, and after each the
// relay must find back by itself. At the end the oracle judges all of it, and what may not repeat
// events has not.
func TestFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	all, err := chosen(*onlyFaults)
	if err != nil {
		t.Fatal(err)
	}
	watch := newWatch(t, defaultBuffer)
	w := newWorld(t, 4*time.Second, "", watch.born)
	watch.start(w.Lab)
	writers := w.Write(4, 40*time.Millisecond)
	var struck []fault
	var crimes []crime
	for _, f := range all {
		w.WaitRecords(lab.Count(w.WaitEnds()) + 200)
		c := scene(t, w.Lab, f.name, lately)
		c.most = readingsOf(f)
		f.begin(w)
		if f.end != nil {
			hold(400 * time.Millisecond)
			f.end(w)
		}
		began := time.Now()
		first := w.recovered()
		t.Logf("%-42s first record after %6s, all after %6s", f.name, first.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
		struck, crimes = append(struck, f), append(crimes, c)
	}
	writers.Stop()
	got := verdict(t, w.Lab, crimes)
	for i, n := range repeats(crimes, got) {
		if struck[i].once && n > 0 {
			t.Errorf("%s: %d repeats, want none", struck[i].name, n)
		}
	}
	w.alive()
	w.stop(w.relay)
	watch.judge()
}
