package wal

import (
	"testing"
	"time"
)

func TestSchedule(t *testing.T) {
	s := schedule{interval: 10 * time.Second}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if s.due().After(now) {
		t.Error("the first status is not due at once")
	}
	if !s.sent(now) {
		t.Error("the first status doesn't ask for a reply")
	}
	if got := s.due().Sub(now); got != 10*time.Second {
		t.Errorf("the next is due in %v", got)
	}
	s.asked = true
	if got := s.due().Sub(now); got != 100*time.Millisecond {
		t.Errorf("an answer is due in %v", got)
	}
	if s.sent(now.Add(time.Second)) {
		t.Error("an answer asks for a reply")
	}
	if got := s.due().Sub(now); got != 11*time.Second {
		t.Errorf("after an answer the next is due in %v", got)
	}
	// A server that gives up within moments isn't kept waiting by the gap.
	fast := schedule{interval: time.Millisecond, last: now, asked: true}
	if got := fast.due().Sub(now); got != time.Millisecond {
		t.Errorf("an answer is due in %v", got)
	}
}

func TestPacer(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	// feed plays reads of so many bytes every so often, and counts the pauses.
	feed := func(p *pacer, now *time.Time, n int, every, during time.Duration) (pauses int) {
		for end := now.Add(during); now.Before(end); *now = now.Add(every) {
			if p.next(n, *now) {
				pauses++
			}
		}
		return pauses
	}
	var p pacer
	now := start
	if n := feed(&p, &now, 300, time.Millisecond, time.Second); n != 0 {
		t.Errorf("%d pauses at 1,000 small rows a second", n)
	}
	if n := feed(&p, &now, 50_000, 20*time.Millisecond, time.Second); n != 0 {
		t.Errorf("%d pauses at a batch now and then", n)
	}
	if n := feed(&p, &now, 1000, 10*time.Microsecond, 5*time.Millisecond); n != 0 {
		t.Errorf("%d pauses in a short burst", n)
	}
	if n := feed(&p, &now, 1000, 10*time.Microsecond, 50*time.Millisecond); n < 3000 {
		t.Errorf("%d pauses under load", n)
	}
	if n := feed(&p, &now, 30_000, time.Millisecond, 50*time.Millisecond); n != 50 {
		t.Errorf("%d pauses in 50 reads under load that pause", n)
	}
	// The first read after an idle time, however long, is not followed by a pause.
	for _, idle := range []time.Duration{100 * time.Millisecond, time.Minute, 1000 * time.Hour} {
		feed(&p, &now, 30_000, time.Millisecond, 50*time.Millisecond)
		now = now.Add(idle)
		if p.next(300, now) {
			t.Errorf("a pause after %v of idling", idle)
		}
	}
}
