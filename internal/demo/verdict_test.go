package demo

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// TestPartition holds the judge's own arithmetic to the vectors that consumers rely on.
func TestPartition(t *testing.T) {
	counts := []int{1, 3, 12, 16, 24, 100}
	for key, want := range map[string][]int32{
		"order:A-1":              {0, 0, 0, 12, 12, 92},
		"order:A-2":              {0, 1, 10, 6, 22, 30},
		"customer:42":            {0, 0, 3, 11, 3, 15},
		"":                       {0, 1, 4, 4, 4, 52},
		"ключ":                   {0, 1, 4, 0, 16, 24},
		strings.Repeat("a", 300): {0, 0, 3, 11, 3, 67},
	} {
		for i, n := range counts {
			if got := partition(key, n); got != want[i] {
				t.Errorf("%.12q of %d: %d, want %d", key, n, got, want[i])
			}
		}
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000", -100: "-100"} {
		if got := count(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}

func TestEachFindingIsNotClean(t *testing.T) {
	if !(Verdict{Events: 1, Repeated: 5}).Clean() {
		t.Error("repeats are not clean")
	}
	for name, v := range map[string]Verdict{
		"missing": {Missing: 1}, "unknown": {Unknown: 1}, "moved": {Moved: 1}, "out of order": {OutOfOrder: 1}, "changed": {Changed: 1},
	} {
		if v.Clean() {
			t.Errorf("%s is clean", name)
		}
		text := v.text(true)
		if !strings.Contains(text, "1 "+name) || !strings.Contains(text, "NOT CLEAN\x1b[0m") {
			t.Errorf("%s: %s", name, text)
		}
	}
}

func TestLatency(t *testing.T) {
	f := &follower{arrived: map[int64]time.Time{}}
	at := time.Now()
	var commits []commit
	for i := range int64(100) {
		commits = append(commits, commit{id: i, at: at})
		f.arrived[i] = at.Add(time.Duration(i) * time.Millisecond)
	}
	f.arrived[0] = at.Add(-time.Second) // seen before the service heard of its commit
	commits = append(commits, commit{id: 100, at: at})
	if l := *f.latency(commits); l != (Latency{P50: Milliseconds(50 * time.Millisecond), P99: Milliseconds(99 * time.Millisecond), Max: Milliseconds(99 * time.Millisecond)}) {
		t.Errorf("%+v", l)
	}
	if l := f.latency(nil); l != nil {
		t.Errorf("of nothing: %+v", l)
	}
}

func TestSteps(t *testing.T) {
	for order := 1; order <= 8; order++ {
		var life []string
		for s := (step{order, 1}); ; s.version++ {
			life = append(life, s.status())
			if s.last() {
				break
			}
		}
		want := "created " + strings.Repeat("changed ", order%4) + "paid shipped"
		if got := strings.Join(life, " "); got != want {
			t.Errorf("order %d: %s, want %s", order, got, want)
		}
	}
}

// TestConsoleOnATerminal: a line stays, what changes is cleared away.
func TestConsoleOnATerminal(t *testing.T) {
	for range 50 { // a line may wait to be written when the end comes
		var out bytes.Buffer
		c := newConsole(&out, true)
		bar := c.track("events", 10)
		bar.set(5, "half")
		c.line("a line")
		bar.done()
		c.track("left open", 0)
		c.line("another")
		c.close()
		c.line("the end")
		if !strings.Contains(out.String(), "a line\n") || !strings.Contains(out.String(), "another\n") || !strings.HasSuffix(out.String(), "the end\n") {
			t.Fatalf("%q", out.String())
		}
	}
}
