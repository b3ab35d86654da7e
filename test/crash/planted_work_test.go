package crash

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// TestDeedsAreJudged: an application that doesn't do a part of its work isn't taken for one that does.
func TestDeedsAreJudged(t *testing.T) {
	all := append(append([]deed{}, deedsAtOnce...), deedsLater...)
	for _, c := range []struct {
		without deed
		length  time.Duration
		err     error
		want    string // "": nothing is wrong
	}{
		{"", time.Hour, nil, ""},
		{aCopy, time.Second, nil, "COPY"},
		{aTruncate, allDeedsFrom, nil, "truncate"},
		{aTruncate, time.Second, nil, ""}, // it may not have come to it yet
		{"", time.Hour, io.ErrShortWrite, "writer bulk: short write"},
	} {
		d := &deeds{}
		for _, what := range all {
			if what != c.without {
				d.count(what)
			}
		}
		if c.err != nil {
			d.fail("bulk", c.err)
			d.fail("busy", errors.New("another, later"))
		}
		wrong, _ := d.judge(c.length)
		got := fmt.Sprint(wrong)
		if (c.want == "") != (len(wrong) == 0) || !strings.Contains(got, c.want) {
			t.Errorf("without %q in %s, %v: %v, want %q", c.without, c.length, c.err, got, c.want)
		}
	}
	d := &deeds{}
	if err := d.done(aCopy, io.EOF); !errors.Is(err, io.EOF) || d.counts[aCopy] != 0 {
		t.Errorf("what failed was counted, or its error lost: %v, %d", err, d.counts[aCopy])
	}
}

func TestLostConnections(t *testing.T) {
	for code, want := range map[string]bool{"57P01": true, "57P03": true, "08006": true, "42703": false, "40P01": false, "53300": false, "57014": false} {
		if got := isLost(nil, fmt.Errorf("insert: %w", &pgconn.PgError{Code: code})); got != want {
			t.Errorf("%s is a lost connection: %v, want %v", code, got, want)
		}
	}
	if explains(false, errors.New("can't encode the argument")) {
		t.Error("an error on a connection that works counts as a lost one")
	}
	if !isLost(nil, context.DeadlineExceeded) {
		t.Error("no connection came to be, and it counts as one that works")
	}
}

// TestChoresComeAll: each pack has all chores, one that failed comes again, and a column is added first.
func TestChoresComeAll(t *testing.T) {
	rnd := newRand(1, 0)
	var c chores
	added := false
	for range 20 {
		seen := map[deed]int{}
		for i := range 6 {
			what := c.next(rnd)
			if i%2 == 0 && c.next(rnd) != what {
				t.Fatalf("%s failed, and doesn't come again", what)
			}
			if what == aNewColumn && added || what == aColumnLess && !added {
				t.Fatalf("%s, and the column is there: %v", what, added)
			}
			if what == aNewColumn || what == aColumnLess {
				added = !added
			}
			seen[what]++
			c.done()
		}
		for what := range choreSQL {
			if seen[what] == 0 {
				t.Errorf("a pack without %q: %v", what, seen)
			}
		}
	}
}
