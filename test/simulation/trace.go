package simulation

import (
	"fmt"
	"strings"
	"time"
)

// trace is what happened, an operation a line.
type trace struct {
	began time.Time
	lines []string
}

func (t *trace) line(n int, what, fault string) {
	var b strings.Builder
	fmt.Fprintf(&b, "%4d %8.3fs  %s", n, time.Since(t.began).Seconds(), what)
	if fault != "" {
		fmt.Fprintf(&b, "  ** %s **", fault)
	}
	t.lines = append(t.lines, b.String())
}

// note adds to the last line.
func (t *trace) note(format string, args ...any) {
	if len(t.lines) > 0 {
		t.lines[len(t.lines)-1] += "; " + fmt.Sprintf(format, args...)
	}
}

// tail returns the last n lines.
func (t *trace) tail(n int) string {
	return strings.Join(t.lines[max(0, len(t.lines)-n):], "\n")
}
