package demo

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// console tells people what happens: lines that stay and, for what takes long, one line that
// is written again on a terminal, and a line every two seconds elsewhere.
type console struct {
	mu     sync.Mutex
	out    io.Writer
	bars   *mpb.Progress // nil where out is no terminal
	tracks []*track      // with bars
}

// newConsole writes to out; a nil out takes everything.
func newConsole(out io.Writer, tty bool) *console {
	c := &console{out: out}
	if tty {
		c.bars = mpb.New(mpb.WithOutput(out), mpb.WithWidth(30), mpb.WithAutoRefresh())
	}
	return c
}

// line prints a line that stays.
func (c *console) line(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := fmt.Appendf(nil, format+"\n", args...)
	if c.bars != nil {
		// Above the lines that change; once these have ended, straight to the output.
		if _, err := c.bars.Write(text); err == nil {
			return
		}
	}
	_, _ = c.out.Write(text) // there is nobody to tell
}

// close ends the lines that change. What is printed later goes straight to the output.
func (c *console) close() {
	c.mu.Lock()
	bars, tracks := c.bars, c.tracks
	c.bars, c.tracks = nil, nil
	c.mu.Unlock()
	if bars == nil {
		return
	}
	for _, t := range tracks {
		t.done()
	}
	bars.Wait() // Shutdown would lose the lines that wait to be written
}

// every is the least time between two lines about the same thing, off a terminal.
const every = 2 * time.Second

// track is something that takes long.
type track struct {
	console *console
	name    string
	bar     *mpb.Bar

	mu   sync.Mutex
	said string
	next time.Time
	now  string
}

// track begins to tell about something; total is 0 where its size isn't known.
func (c *console) track(name string, total int64) *track {
	t := &track{console: c, name: name, next: time.Now().Add(every)}
	c.mu.Lock()
	bars := c.bars
	c.mu.Unlock()
	if bars == nil {
		return t
	}
	var style mpb.BarFillerBuilder = mpb.BarStyle().Lbound("[").Filler("=").Tip(">").Padding(" ").Rbound("]")
	if total == 0 {
		style = mpb.NopStyle()
	}
	t.bar = bars.New(total, style, mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.Name(name+" ")),
		mpb.AppendDecorators(decor.Any(func(decor.Statistics) string {
			t.mu.Lock()
			defer t.mu.Unlock()
			return t.now
		})))
	c.mu.Lock()
	c.tracks = append(c.tracks, t)
	c.mu.Unlock()
	return t
}

// text says what is going on.
func (t *track) text(now string) { t.set(0, now) }

// set says how far it is.
func (t *track) set(n int64, now string) {
	t.mu.Lock()
	t.now = now
	due := t.bar == nil && now != t.said && !time.Now().Before(t.next)
	if due {
		t.said, t.next = now, time.Now().Add(every)
	}
	t.mu.Unlock()
	if t.bar != nil {
		t.bar.SetCurrent(n)
	}
	if due {
		t.console.line("%s: %s", t.name, now)
	}
}

// done ends it.
func (t *track) done() {
	if t.bar != nil {
		t.bar.Abort(true)
	}
}
