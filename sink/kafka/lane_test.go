package kafka

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/sink"
)

// TestLaneScripts runs the scenarios of testdata/lane.txt. A line is what happens, and behind
// an arrow all that the lane wants done then.
func TestLaneScripts(t *testing.T) {
	data, err := os.ReadFile("testdata/lane.txt")
	if err != nil {
		t.Fatal(err)
	}
	var name string
	var l lane
	next := 0
	for i, line := range strings.Split(string(data), "\n") {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
			continue
		case strings.HasPrefix(line, "== "):
			name = line[3:]
			l = newLane(1 << 20)
			next = 0
			continue
		}
		did, want, _ := strings.Cut(line, "->")
		got := runLine(t, &l, &next, strings.Fields(did))
		if want = strings.TrimSpace(want); got != want {
			t.Errorf("line %d, %s: %s -> %s, want %s", i+1, name, strings.TrimSpace(did), got, want)
		}
	}
}

// words is a line of a script.
type words struct {
	t *testing.T
	w []string
}

func (w words) num(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		w.t.Fatalf("%v: %v", w.w, err)
	}
	return n
}

// arg returns the value of key=value.
func (w words) arg(key string) (string, bool) {
	for _, s := range w.w[1:] {
		if v, ok := strings.CutPrefix(s, key+"="); ok {
			return v, true
		}
	}
	return "", false
}

// runLine carries out one line of a script.
func runLine(t *testing.T, l *lane, next *int, line []string) string {
	t.Helper()
	w := words{t, line}
	switch line[0] {
	case "append", "flawed":
		var out []action
		for range w.num(line[1]) {
			ev := event{kind: evAppend, record: &sink.Record{Ticket: uint64(*next)}, size: 100}
			if line[0] == "flawed" {
				ev.flaw = badTimestamp
			}
			*next++
			out = l.step(ev, out)
		}
		return render(out)
	case "epoch": // as if there had been so many
		l.epoch = int16(w.num(line[1]))
		return ""
	case "seq":
		l.seq = int32(w.num(line[1]))
		return ""
	case "waiting":
		if n := l.waiting(); n != w.num(line[1]) {
			return fmt.Sprintf("waiting %d", n)
		}
		return ""
	}
	return render(l.step(w.event(l), nil))
}

// event is what a line says that happens.
func (w words) event(l *lane) event {
	switch w.w[0] {
	case "id":
		return event{kind: evID, id: int64(w.num(w.w[1]))}
	case "take":
		ev := event{kind: evTake, limit: 1 << 30}
		if v, ok := w.arg("limit"); ok {
			ev.limit = w.num(v)
		}
		return ev
	case "answer":
		ev := event{kind: evAnswer, code: int16(w.num(w.w[1])), offset: -1}
		ev.class = classify(ev.code)
		if v, ok := w.arg("at"); ok {
			ev.offset = int64(w.num(v))
		}
		if v, ok := w.arg("bad"); ok {
			for _, s := range strings.Split(v, ",") {
				ev.bad = append(ev.bad, int32(w.num(s)))
			}
		}
		return ev
	case "lost":
		return event{kind: evAnswer, class: unknown, offset: -1}
	case "cut":
		return event{kind: evAnswer, class: unknown, offset: -1, cut: true, alone: true}
	case "timer":
		return event{kind: evTimer}
	case "probe":
		ev := event{kind: evProbed}
		if v, ok := w.arg("last"); ok {
			ev.known, ev.lastSeq, ev.epoch = true, int32(w.num(v)), l.epoch
		}
		if v, ok := w.arg("epoch"); ok {
			ev.epoch = int16(w.num(v))
		}
		return ev
	case "settled":
		return event{kind: evVerdict, verdict: sink.Settled}
	case "retry":
		return event{kind: evVerdict, verdict: sink.Retry}
	case "failed":
		return event{kind: evVerdict, verdict: sink.Settled, failed: true}
	case "halt":
		return event{kind: evHalt}
	case "close":
		return event{kind: evClose}
	}
	w.t.Fatalf("unknown command %v", w.w)
	return event{}
}

// render prints actions as the scripts have them.
func render(as []action) string {
	var out []string
	recs := func(b *batch) string {
		first, last := b.records[0].Ticket, b.records[len(b.records)-1].Ticket
		if first == last {
			return fmt.Sprint(first)
		}
		return fmt.Sprintf("%d-%d", first, last)
	}
	for i := range as {
		a := &as[i]
		switch a.kind {
		case actReady:
			out = append(out, "ready")
		case actSend:
			out = append(out, fmt.Sprintf("send %s id=%d epoch=%d seq=%d", recs(a.batch), a.batch.id, a.batch.epoch, a.batch.seq))
		case actNeedID:
			out = append(out, "id?")
		case actBackoff:
			s := fmt.Sprintf("wait %d", a.attempt)
			if a.refresh {
				s += " refresh"
			}
			if a.slow {
				s += " slow"
			}
			out = append(out, s)
		case actReport:
			out = append(out, "acked "+recs(a.batch))
		case actProbe:
			out = append(out, "probe")
		case actAsk:
			s := fmt.Sprintf("ask %s code=%d", recs(a.batch), a.code)
			if a.doubt {
				s += " doubt"
			}
			out = append(out, s)
		case actSettled:
			out = append(out, "settled "+recs(a.batch))
		case actStop:
			out = append(out, fmt.Sprintf("stop %d", a.code))
		case actHeal:
			out = append(out, "heal")
		case actHalt:
			out = append(out, "halt "+[]string{"regressed", "pops", "bumps"}[a.halt])
		}
	}
	return strings.Join(out, ", ")
}

// waiting is the number of records that are not settled.
func (l *lane) waiting() int {
	n := l.queue.len()
	for _, s := range l.segs {
		n += len(s.records)
	}
	if l.cur != nil {
		n += len(l.cur.records)
	}
	return n
}

func TestCuts(t *testing.T) {
	for _, x := range []struct {
		bad  []int32
		n    int
		want string
	}{
		{nil, 2, "[{0 1} {1 2}]"},
		{nil, 5, "[{0 2} {2 5}]"},
		{[]int32{0}, 3, "[{0 1} {1 3}]"},
		{[]int32{1}, 3, "[{0 1} {1 2} {2 3}]"},
		{[]int32{2}, 3, "[{0 2} {2 3}]"},
		{[]int32{2, 0, 2}, 4, "[{0 1} {1 2} {2 3} {3 4}]"},
		{[]int32{0, 1, 2}, 3, "[{0 1} {1 2} {2 3}]"},
		{[]int32{-1, 7}, 4, "[{0 2} {2 4}]"}, // nothing usable
	} {
		if got := fmt.Sprint(cuts(x.bad, x.n)); got != x.want {
			t.Errorf("cuts(%v, %d) = %s, want %s", x.bad, x.n, got, x.want)
		}
	}
}

// TestLaneBatches looks at how much goes into a batch.
func TestLaneBatches(t *testing.T) {
	l := newLane(batchOverhead + 100*100)
	fill := func(n int) {
		for range n {
			l.step(event{kind: evAppend, record: &sink.Record{}, size: 100}, nil)
		}
	}
	offset := int64(0)
	take := func() int {
		for _, a := range l.step(event{kind: evTake, limit: 1 << 30}, nil) {
			if a.kind == actSend {
				return len(a.batch.records)
			}
		}
		return 0
	}
	ack := func(n int) {
		l.step(event{kind: evAnswer, class: acked, offset: offset}, nil)
		offset += int64(n)
	}
	fill(1)
	l.step(event{kind: evID, id: 1}, nil)
	if n := take(); n != 1 {
		t.Errorf("idle: a batch of %d, want 1 at once", n)
	}
	fill(250)
	ack(1)
	for _, want := range []int{100, 100, 50} {
		if n := take(); n != want {
			t.Errorf("backlog: a batch of %d, want %d", n, want)
		}
		ack(want)
	}

	// A refusal for size teaches a smaller limit, which grows again.
	fill(200 * growAfter)
	n := take()
	l.step(event{kind: evAnswer, class: rejected, code: codeMessageTooLarge}, nil)
	for n > 0 {
		half := take()
		ack(half)
		n -= half
	}
	learned := take()
	if learned < 40 || learned > 50 {
		t.Errorf("after a refusal of 100 for size: a batch of %d", learned)
	}
	ack(learned)
	for range 2 * growAfter {
		ack(take())
	}
	if n := take(); n != 100 {
		t.Errorf("%d acks later: a batch of %d, want 100", 2*growAfter, n)
	}
}

func TestFIFO(t *testing.T) {
	var q fifo
	next, want := 0, 0
	for round := range 2000 {
		for range round % 7 {
			q.push(entry{size: int32(next)})
			next++
		}
		for range min(q.len(), round%5) {
			if got := int(q.peek().size); got != want {
				t.Fatalf("the head is %d, want %d", got, want)
			}
			if got := int(q.pop().size); got != want {
				t.Fatalf("popped %d, want %d", got, want)
			}
			want++
		}
		if q.len() != next-want {
			t.Fatalf("%d in the queue, want %d", q.len(), next-want)
		}
	}
	for q.len() > 0 {
		q.pop()
	}
	if c := cap(q.buf); c > 8192 {
		t.Errorf("a queue of at most %d has room for %d", next-want, c)
	}
	for _, e := range q.buf[:cap(q.buf)] {
		if e != (entry{}) {
			t.Fatal("an empty queue keeps entries")
		}
	}
}
