package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/test/lab"
	"github.com/cdc-relay/cdc-relay/wal"
)

// memoryMax is what no relay with that buffer may ever have had in memory: twice the buffer, for the
// events and their encoded form, and a part that doesn't depend on it. That part is 27 to 30 MiB in the
// soaks that we have measured (59 MiB with a buffer of 16 MiB, 32 with one of 1); the rest is room for
// a garbage collector that comes late on a busy machine.
func memoryMax(buffer int64) int64 { return 2*buffer + 48<<20 }

// looksDue is the number of looks that a watch of that length has at least: one every two seconds, of
// ten that it tries. The server, and the relay, may be away for a good part of the time.
func looksDue(length time.Duration) int { return int(length / (2 * time.Second)) }

// watch looks at the relay's positions and memory all the time, through faults and all, and fails the
// test as soon as something is as it must never be.
type watch struct {
	t      *testing.T
	most   int64 // memory that a relay may have
	cancel context.CancelFunc
	done   chan struct{}
	began  time.Time

	mu      sync.Mutex
	lives   []*lab.Process // that may be alive
	started int
	peak    int64 // greatest VmHWM of all lives
	rss     int64 // of the newest
	stored  wal.LSN
	current wal.LSN
	row     string // the row's xmin: each write makes a new one
	writes  int
	looks   int // at the positions
	sights  int // of a relay's memory
}

// newWatch makes a watch over relays with a buffer of that size.
func newWatch(t *testing.T, buffer int64) *watch {
	return &watch{t: t, most: memoryMax(buffer), done: make(chan struct{})}
}

// born adds a relay.
func (w *watch) born(p *lab.Process) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lives = append(w.lives, p)
	w.started++
}

// start begins to look at the lab's slot.
func (w *watch) start(l *lab.Lab) {
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel, w.began = cancel, time.Now()
	w.t.Cleanup(w.stop)
	go func() {
		defer close(w.done)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		var c *pgx.Conn
		for {
			w.memory()
			if err := w.positions(ctx, l, &c); err != nil {
				if ctx.Err() == nil && !isLost(c, err) { // not that the server is away for the moment
					w.t.Errorf("look at the positions: %v", err)
				}
				if c != nil {
					_ = c.Close(context.WithoutCancel(ctx))
					c = nil
				}
			}
			select {
			case <-ctx.Done():
				if c != nil {
					_ = c.Close(context.WithoutCancel(ctx))
				}
				return
			case <-tick.C:
			}
		}
	}()
}

func (w *watch) stop() {
	w.cancel()
	<-w.done
}

// judge stops the watch, and fails if it has looked too seldom to have seen anything.
func (w *watch) judge() {
	w.t.Helper()
	w.stop()
	for _, err := range w.view().seldom(time.Since(w.began)) {
		w.t.Error(err)
	}
}

// positions looks once. The slot is read before the row, in a statement of its own: what the slot has
// confirmed by then was stored before, so that the row can't be behind it.
func (w *watch) positions(ctx context.Context, l *lab.Lab, c **pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if *c == nil {
		conn, err := pgx.Connect(ctx, l.URL)
		if err != nil {
			return err
		}
		*c = conn
	}
	var confirmed, current, stored, row string
	err := (*c).QueryRow(ctx, "select confirmed_flush_lsn::text, pg_current_wal_lsn()::text from pg_replication_slots where slot_name = $1", l.Slot).
		Scan(&confirmed, &current)
	if err != nil {
		return err
	}
	err = (*c).QueryRow(ctx, "select stored::text, xmin::text from cdc_relay.checkpoint where slot = $1", l.Slot).Scan(&stored, &row)
	if err != nil {
		return err
	}
	var lsns [3]wal.LSN
	for i, text := range []string{confirmed, current, stored} {
		if lsns[i], err = wal.ParseLSN(text); err != nil {
			w.t.Error(err)
			return err
		}
	}
	for _, wrong := range w.note(lsns[0], lsns[1], lsns[2], row) {
		w.t.Error(wrong)
	}
	return nil
}

// note takes what was seen, and returns what must never be.
func (w *watch) note(confirmed, current, stored wal.LSN, row string) (wrong []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if stored < w.stored {
		wrong = append(wrong, fmt.Sprintf("the stored position went back from %s to %s", w.stored, stored))
	}
	if confirmed > stored {
		wrong = append(wrong, fmt.Sprintf("the slot has confirmed %s, and the row says %s: the relay told Postgres more than it had stored", confirmed, stored))
	}
	if row != w.row && w.row != "" {
		w.writes++
	}
	w.current, w.stored, w.row = current, stored, row
	w.looks++
	return wrong
}

// memory looks how much the living relays have, and had at most.
func (w *watch) memory() {
	w.mu.Lock()
	defer w.mu.Unlock()
	living := w.lives[:0]
	for _, p := range w.lives {
		if _, ended := p.Ended(); ended {
			continue
		}
		living = append(living, p)
		now, most, err := memoryOf(p.PID())
		if err != nil {
			continue // it has just ended, or the system has no /proc
		}
		if most > w.most && w.peak <= w.most {
			w.t.Errorf("relay %d had %d MiB in memory, more than %d", p.PID(), most>>20, w.most>>20)
		}
		w.sights++
		w.rss, w.peak = now, max(w.peak, most)
	}
	w.lives = living
}

// memoryOf reads VmRSS and VmHWM of a process (proc_pid_status(5)).
func memoryOf(pid int) (now, most int64, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, err
	}
	for _, line := range strings.Split(string(b), "\n") {
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[0] != "VmRSS:" && fields[0] != "VmHWM:" {
			continue
		}
		kb, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			return 0, 0, err
		}
		if fields[0] == "VmRSS:" {
			now = kb << 10
		} else {
			most = kb << 10
		}
	}
	if most == 0 {
		return 0, 0, errors.New("no VmHWM: the process has ended")
	}
	return now, most, nil
}

// view is what the watch has seen.
type view struct {
	stored, current wal.LSN
	writes, looks   int
	sights          int
	rss, peak       int64
	started         int
}

func (w *watch) view() view {
	w.mu.Lock()
	defer w.mu.Unlock()
	return view{w.stored, w.current, w.writes, w.looks, w.sights, w.rss, w.peak, w.started}
}

// seldom says of what a watch of that length has seen too little.
func (v view) seldom(length time.Duration) (wrong []error) {
	due := looksDue(length)
	if v.looks < due {
		wrong = append(wrong, fmt.Errorf("%d looks at the positions in %s, want %d: the watch proves nothing", v.looks, length, due))
	}
	if runtime.GOOS == "linux" && v.sights < due { // elsewhere there is no /proc
		wrong = append(wrong, fmt.Errorf("%d looks at the memory of a relay in %s, want %d: the watch proves nothing", v.sights, length, due))
	}
	return wrong
}
