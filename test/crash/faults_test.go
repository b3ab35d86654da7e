package crash

import (
	"flag"
	"regexp"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/test/lab"
)

var onlyFaults = flag.String("faults", "", "only the faults of TestFaults whose name matches")

// TestFaults strikes with each fault once, under traffic, on one set of servers, and after each the
// relay must find back by itself. At the end the oracle judges all of it, and what may not repeat
// events has not.
func TestFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	only, err := regexp.Compile(*onlyFaults)
	if err != nil {
		t.Fatal(err)
	}
	watch := newWatch(t)
	w := newWorld(t, 4*time.Second, "", watch.born)
	watch.start(w.Lab)
	writers := w.Write(4, 40*time.Millisecond)
	var struck []fault
	var crimes []crime
	for _, f := range faults() {
		if !only.MatchString(f.name) {
			continue
		}
		w.WaitRecords(lab.Count(w.WaitEnds()) + 200)
		c := scene(t, w.Lab, "outbox_events", f.name, lately)
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
	if len(struck) == 0 {
		t.Fatalf("no fault matches %q", *onlyFaults)
	}
	writers.Stop()
	w.Settle()
	r, got := w.Judge("outbox_events")
	t.Logf("\n%s", r)
	if !r.Clean() {
		t.Errorf("not clean after %d faults", len(struck))
	}
	judge(t, crimes, got)
	for i, n := range repeats(crimes, got) {
		if struck[i].once && n > 0 {
			t.Errorf("%s: %d repeats, want none", struck[i].name, n)
		}
	}
	w.alive()
	w.stop(w.relay)
	watch.stop()
}
