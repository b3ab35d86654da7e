package kafka

import (
	"container/heap"
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// clock calls partitions back after a delay, from one goroutine.
type clock struct {
	wake chan struct{} // one, buffered

	mu    sync.Mutex
	queue alarms
}

type alarm struct {
	at time.Time
	p  *partition
}

func newClock() *clock { return &clock{wake: make(chan struct{}, 1)} }

// after lets p's timer ring once d has passed.
func (c *clock) after(d time.Duration, p *partition) {
	c.mu.Lock()
	a := alarm{time.Now().Add(d), p}
	first := len(c.queue) == 0 || a.at.Before(c.queue[0].at)
	heap.Push(&c.queue, a)
	c.mu.Unlock()
	if first {
		signal(c.wake)
	}
}

func (c *clock) run(ctx context.Context) {
	t := time.NewTimer(time.Hour)
	defer t.Stop()
	for {
		p, wait := c.next()
		if p != nil {
			p.handle(event{kind: evTimer})
			continue
		}
		t.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
		case <-t.C:
		}
	}
}

// next pops a partition that is due, or says how long to wait.
func (c *clock) next() (*partition, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) == 0 {
		return nil, time.Hour
	}
	if d := time.Until(c.queue[0].at); d > 0 {
		return nil, d
	}
	return heap.Pop(&c.queue).(alarm).p, 0
}

// alarms is a heap, the earliest first.
type alarms []alarm

func (q alarms) Len() int           { return len(q) }
func (q alarms) Less(i, j int) bool { return q[i].at.Before(q[j].at) }
func (q alarms) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *alarms) Push(x any)        { *q = append(*q, x.(alarm)) }
func (q *alarms) Pop() any {
	old := *q
	a := old[len(old)-1]
	old[len(old)-1] = alarm{}
	*q = old[:len(old)-1]
	return a
}

// signal wakes whoever waits on a channel that holds one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// backoff is the pause before attempt number n+1: lo doubled n-1 times, at most hi, spread
// over its upper half so that lanes don't come back all at once.
func backoff(n int, lo, hi time.Duration) time.Duration {
	d := lo
	for i := 1; i < n && d < hi; i++ {
		d *= 2
	}
	d = min(d, hi)
	return d/2 + rand.N(d/2+1)
}

// pause waits for d, and says false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
