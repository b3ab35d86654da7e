package relay

import (
	"testing"

	"github.com/cdc-relay/cdc-relay/wal"
)

func TestLeftover(t *testing.T) {
	at := func(lineage uint16, commit wal.LSN) wal.Position {
		return wal.Position{Lineage: lineage, Commit: commit, Seq: 3}
	}
	first := wal.Lineages{{No: 1}}
	for _, c := range []struct {
		name   string
		do     func(*leftover)
		stored wal.LSN
		sink   int // what it has unsettled
		want   int
	}{
		{"nothing was handed over", func(*leftover) {}, 10, 0, 0},
		{"nothing was stored", func(l *leftover) { l.handed(at(1, 20)); l.ended(3, 0) }, 10, 0, 3},
		{"some was stored", func(l *leftover) { l.handed(at(1, 20)); l.ended(3, 2) }, 15, 0, 1},
		{"the sink knows of more", func(l *leftover) { l.handed(at(1, 20)); l.ended(3, 2) }, 15, 4, 4},
		{"another session read less", func(l *leftover) { l.handed(at(1, 20)); l.ended(3, 0); l.ended(1, 1) }, 15, 0, 2},
		{"another session read more", func(l *leftover) { l.handed(at(1, 20)); l.ended(3, 0); l.handed(at(1, 40)); l.ended(5, 1) }, 15, 0, 4},
		{"the position passed all of it", func(l *leftover) { l.handed(at(1, 20)); l.ended(3, 0) }, 28, 0, 0},
		{"the next transaction begins at the position", func(l *leftover) { l.handed(at(1, 28)); l.ended(3, 2) }, 28, 0, 1},
		{"another relay has the slot", func(l *leftover) { l.handed(at(1, 20)); l.ended(3, 0); l.theirs = true }, 10, 0, 0},
		{"the slot came back", func(l *leftover) {
			l.handed(at(1, 20))
			l.ended(3, 0)
			l.theirs = true
			l.began(first)
		}, 10, 0, 3},
		// After a failover that lost the end of the log, LSNs up to what was handed over come a second time.
		{"the position is of a history that began before", func(l *leftover) {
			l.handed(at(1, 90))
			l.ended(3, 0)
			l.began(wal.Lineages{{No: 1}, {No: 2, From: 40}})
		}, 50, 0, 0},
		{"the history has not got there yet", func(l *leftover) {
			l.handed(at(1, 90))
			l.ended(3, 0)
			l.began(wal.Lineages{{No: 1}, {No: 2, From: 40}})
		}, 30, 0, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := leftover{lineages: first}
			c.do(&l)
			if got := l.count(c.stored, c.sink); got != c.want {
				t.Errorf("%d events, want %d", got, c.want)
			}
		})
	}
}
