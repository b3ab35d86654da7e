package stdout_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/sink/sinktest"
	"github.com/cdc-relay/cdc-relay/sink/stdout"
)

// writes remembers each write, and holds the first one up.
type writes struct {
	let  chan struct{}
	each [][]byte
}

func (w *writes) Write(b []byte) (int, error) {
	if len(w.each) == 0 {
		<-w.let
	}
	w.each = append(w.each, bytes.Clone(b))
	return len(b), nil
}

// Each write ends with a whole line, so that whatever ends the relay between two of them leaves
// nothing half on the other side.
func TestWritesWholeLines(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	w := &writes{let: make(chan struct{})}
	l := sinktest.NewLedger()
	s := stdout.New(w, l)
	const n = 2000
	for i := range n {
		r := event(i)
		r.Value = bytes.Repeat([]byte("x"), i)
		if err := l.Produce(ctx, s, r); err != nil {
			t.Fatal(err)
		}
	}
	close(w.let) // all but the first are written in one go
	if err := s.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Close(ctx, s); err != nil {
		t.Fatal(err)
	}
	lines := 0
	for i, b := range w.each {
		if !bytes.HasSuffix(b, []byte("}\n")) {
			t.Errorf("write %d of %d ends in the middle of a line: ...%q", i, len(w.each), b[max(0, len(b)-20):])
		}
		lines += bytes.Count(b, []byte("\n"))
	}
	if lines != n || len(w.each) < 3 {
		t.Errorf("%d lines in %d writes, want %d in several", lines, len(w.each), n)
	}
	l.Check(t)
}
