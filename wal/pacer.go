package wal

import "time"

const (
	// pause is how long a read is put off under load.
	pause = time.Millisecond
	// paceWindow is how long a load must last, and paceRate what it must be in bytes per
	// second: below some 20,000 rows a second there is nothing to win.
	paceWindow = 8 * time.Millisecond
	paceRate   = 8 << 20
)

// pacer lets the socket fill under load. The server sends row by row, and a reader that is fast
// enough is woken for each of them: that costs it, and the server, more than all the
// rest.
type pacer struct {
	pacing bool
	since  time.Time // of the window
	bytes  int       // in the window
}

// next is told of each read and says whether to pause before the next, if it would have to wait.
func (p *pacer) next(n int, now time.Time) bool {
	p.bytes += n
	if elapsed := now.Sub(p.since); elapsed >= paceWindow {
		p.pacing = float64(p.bytes) >= paceRate*elapsed.Seconds()
		p.since, p.bytes = now, 0
	}
	return p.pacing
}
