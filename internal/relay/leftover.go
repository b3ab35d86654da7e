package relay

import "github.com/cdc-relay/cdc-relay/wal"

// leftover knows the events past the stored position that this relay has handed to the sink: they come
// again at the next start, and a stop says how many. Only Run's goroutine uses it.
type leftover struct {
	// events counts what the sessions which are over left. It may be too many where a write of the
	// position came through without an answer.
	events int
	newest wal.Position // of the newest event that was handed over
	// lineages place the stored position beside newest: an LSN alone may be of another history.
	lineages wal.Lineages
	theirs   bool // another relay has the slot, and what is left is its to publish
}

// began: this relay streams, under these lineages.
func (l *leftover) began(ls wal.Lineages) { l.lineages, l.theirs = ls, false }

// handed notes the newest event that a session handed over.
func (l *leftover) handed(p wal.Position) {
	if l.newest.Compare(p) < 0 {
		l.newest = p
	}
}

// ended takes over from a session that handed so many events to the sink, of which the stored position
// covers some. Each session begins at the stored position and hands the same events over in the same
// order, so of two the longer one counts.
func (l *leftover) ended(handed, covered int) { l.events = max(0, max(l.events, handed)-covered) }

// count is the number of events that lie past the stored position and were handed over. unsettled is
// what the sink still has.
func (l *leftover) count(stored wal.LSN, unsettled int) int {
	at := wal.Position{Lineage: l.lineages.At(stored), Commit: stored}
	if l.theirs || at.Compare(l.newest) > 0 {
		return unsettled
	}
	return max(unsettled, l.events)
}
