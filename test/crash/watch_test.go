package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/test/lab"
	"github.com/cdc-relay/cdc-relay/wal"
)

// memoryMax is what no relay may ever have had in memory: twice the default buffer, the rows, and the
// fixed part, with room to spare.
const memoryMax = 128 << 20

// watch looks at the relay's positions and memory all the time, through faults and all, and fails the
// test as soon as something is as it must never be.
type watch struct {
	t      *testing.T
	cancel context.CancelFunc
	done   chan struct{}

	mu      sync.Mutex
	lives   []*lab.Process // that may be alive
	started int
	peak    int64 // greatest VmHWM of all lives
	rss     int64 // of the newest
	stored  wal.LSN
	current wal.LSN
	row     string // the row's xmin: each write makes a new one
	writes  int
	looks   int
}

func newWatch(t *testing.T) *watch { return &watch{t: t, done: make(chan struct{})} }

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
	w.cancel = cancel
	w.t.Cleanup(w.stop)
	go func() {
		defer close(w.done)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		var c *pgx.Conn
		for {
			w.memory()
			if err := w.positions(ctx, l, &c); err != nil && c != nil { // the server is away for the moment
				_ = c.Close(context.WithoutCancel(ctx))
				c = nil
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
		if most > memoryMax && w.peak <= memoryMax {
			w.t.Errorf("relay %d had %d MiB in memory, more than %d", p.PID(), most>>20, memoryMax>>20)
		}
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
	rss, peak       int64
	started         int
}

func (w *watch) view() view {
	w.mu.Lock()
	defer w.mu.Unlock()
	return view{w.stored, w.current, w.writes, w.looks, w.rss, w.peak, w.started}
}
