package crash

import (
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/test/oracle"
	"github.com/cdc-relay/cdc-relay/wal"
)

// The tests of what these tests judge by: faults that are planted have to be found.

func TestWitnessCounts(t *testing.T) {
	record := func(id string, partition int32, offset int64, commit uint64) oracle.Record {
		return oracle.Record{ID: "t:e:" + id, Partition: partition, Offset: offset, Position: oracle.Position{Lineage: 1, Commit: commit}}
	}
	records := []oracle.Record{
		record("1", 0, 0, 100), record("3", 0, 1, 300), record("3", 0, 2, 300), record("0", 0, 3, 500),
		record("2", 1, 0, 200), record("2", 1, 1, 200), record("4", 1, 2, 400),
	}
	crimes := []crime{
		// 1 is stored, 2 and 3 are committed and not stored, 4 isn't there yet. Then 3 is published again.
		{stored: 150, durable: 301, ends: map[int32]int64{0: 2, 1: 2}},
		// 4 is committed too; 0 isn't yet, although its id is the smallest.
		{stored: 350, durable: 401, ends: map[int32]int64{0: 3, 1: 2}},
		// All is stored.
		{stored: 600, durable: 600, ends: map[int32]int64{0: 4, 1: 3}},
	}
	if got, want := unconfirmed(crimes, records), []int{2, 1, 0}; !slices.Equal(got, want) {
		t.Errorf("unconfirmed %d, want %d", got, want)
	}
	// The repeat of 2 lies before all crimes, and is nobody's.
	if got, want := repeats(crimes, records), []int{1, 0, 0}; !slices.Equal(got, want) {
		t.Errorf("repeats %d, want %d", got, want)
	}
}

func TestFaultsAreChosen(t *testing.T) {
	for _, c := range []struct {
		pattern string
		want    int // 0: an error
	}{
		{"", len(faults())},
		{"^relay: stop$", 1},
		{"walsender|refused", 3},
		{"nosuchfault", 0},
		{"(", 0},
	} {
		got, err := chosen(c.pattern)
		if len(got) != c.want || (err != nil) != (c.want == 0) {
			t.Errorf("%q: %d faults, %v; want %d", c.pattern, len(got), err, c.want)
		}
	}
	if _, err := chosen("nosuchfault"); err == nil || !strings.Contains(err.Error(), "relay: freeze until taken over") {
		t.Errorf("%v, want the names of what there is", err)
	}
}

func TestAFaultMustStrike(t *testing.T) {
	w := &world{t: t, calm: true}
	if err := w.hit(1, "a wire"); err != nil || w.misses != 0 {
		t.Errorf("hit: %v, %d misses", err, w.misses)
	}
	if err := w.hit(0, "a wire"); err == nil {
		t.Error("a cut of no connection passes when all was well")
	}
	// In the recovery from another fault there may be nothing to strike, and then it doesn't count.
	w.calm = false
	if err := w.hit(0, "a wire"); err != nil || w.misses != 1 {
		t.Errorf("missed in a recovery: %v, %d misses, want none and 1", err, w.misses)
	}
}

func TestWatchSeesWhatMustNotBe(t *testing.T) {
	for _, c := range []struct {
		name              string
		confirmed, stored wal.LSN
		want              string
	}{
		{"as it should be", 100, 100, ""},
		{"ahead of the slot", 90, 120, ""},
		{"went back", 90, 99, "went back from 0/64 to 0/63"},
		{"confirmed too much", 101, 100, "more than it had stored"},
	} {
		w := newWatch(t, 1<<20)
		if wrong := w.note(100, 200, 100, "7"); wrong != nil {
			t.Fatal(wrong)
		}
		got := strings.Join(w.note(c.confirmed, 200, c.stored, "8"), "; ")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if v := w.view(); v.writes != 1 || v.looks != 2 {
			t.Errorf("%s: %d writes in %d looks, want 1 in 2", c.name, v.writes, v.looks)
		}
	}
}

func TestWatchMustLook(t *testing.T) {
	if wrong := (view{looks: 30, sights: 30}).seldom(time.Minute); wrong != nil {
		t.Error(wrong)
	}
	if wrong := (view{looks: 29, sights: 30}).seldom(time.Minute); len(wrong) != 1 {
		t.Errorf("29 looks at the positions in a minute: %v, want an error", wrong)
	}
	if wrong := (view{looks: 30}).seldom(time.Minute); len(wrong) != 1 && runtime.GOOS == "linux" {
		t.Errorf("no look at the memory: %v, want an error", wrong)
	}
	// A leak of 100 MiB doesn't pass with any buffer, nor does one of 32 with the smallest.
	if big, little := memoryMax(defaultBuffer), memoryMax(1<<20); big > 100<<20 || little > 60<<20 {
		t.Errorf("a relay may have %d bytes, or %d", big, little)
	}
}

func TestMemoryOfAProcess(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	now, most, err := memoryOf(os.Getpid())
	if err != nil || now < 1<<20 || most < now {
		t.Errorf("%d bytes now, %d at most, %v", now, most, err)
	}
	if _, _, err := memoryOf(0); err == nil {
		t.Error("a process that isn't there has memory")
	}
}

func TestBudgetBoundsTheRate(t *testing.T) {
	b := newBudget(100)
	var last time.Duration
	for range 50 {
		last = b.take(10) // 500 events at 100 a second
	}
	if last < 4*time.Second || last > 5*time.Second {
		t.Errorf("the last of 500 events is due in %s, want about 5s", last)
	}
}

func TestASoakNeedsItsTime(t *testing.T) {
	now := time.Now()
	if err := enough(now, now.Add(10*time.Minute), 20*time.Second); err != nil {
		t.Error(err)
	}
	if err := enough(now, now.Add(10*time.Minute), 8*time.Minute); err == nil {
		t.Error("a soak that go test will cut off begins")
	}
}

// TestPackHasAllKinds: a soak deals each kind before any comes again, and two at once never strike the
// same part.
func TestPackHasAllKinds(t *testing.T) {
	s := &soak{rnd: newRand(1, 0)}
	seen := map[string]int{}
	for range 2 * len(faults()) {
		seen[s.draw().name]++
	}
	for _, f := range faults() {
		if seen[f.name] != 2 {
			t.Errorf("%s was dealt %d times in two packs", f.name, seen[f.name])
		}
	}
	for range 200 {
		first := s.draw()
		if second, ok := s.drawOther(first); ok && (second.hits&first.hits != 0 || second.name == first.name) {
			t.Errorf("%s beside %s", first.name, second.name)
		}
	}
}
