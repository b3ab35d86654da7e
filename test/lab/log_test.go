package lab

import (
	"fmt"
	"strings"
	"testing"
)

func TestKeptLogLeavesOutTheMiddle(t *testing.T) {
	var l keptLog
	pad := strings.Repeat("x", 1000)
	const lines = 2000
	for i := range lines {
		l.add(fmt.Appendf(nil, "line %d %s", i, pad))
	}
	got := l.String()
	for _, want := range []string{"line 0 ", fmt.Sprintf("line %d ", lines-1), "left out"} {
		if !strings.Contains(got, want) {
			t.Errorf("the kept log lacks %q", want)
		}
	}
	if strings.Contains(got, fmt.Sprintf("line %d ", lines/2)) {
		t.Error("the middle is kept")
	}
	if most := headKept + tailKept + 100; len(got) > most {
		t.Errorf("%d bytes are kept, more than %d", len(got), most)
	}
	for _, line := range strings.Split(strings.TrimSpace(got), "\n") {
		if !strings.HasPrefix(line, "line ") && !strings.Contains(line, "left out") {
			t.Errorf("a line is cut: %.40q", line)
		}
	}
	var short keptLog
	short.add([]byte("one"))
	if got := short.String(); got != "one\n" {
		t.Errorf("a short log is %q", got)
	}
}
