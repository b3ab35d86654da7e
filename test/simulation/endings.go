package simulation

import (
	"time"

	"github.com/cdc-relay/cdc-relay/internal/relay"
	"github.com/cdc-relay/cdc-relay/sink/kafka"
	"github.com/cdc-relay/cdc-relay/wal"
)

// What a relay says of itself when it can't or mustn't go on, held against what the world knows.

// refusalsLeast is how often a lane is told no about what is in the log before it may call itself
// stuck: each of the three times that it sends it again as it was.
const refusalsLeast = 3

// stuck: a lane says that only a restart helps. It may where the leader refused again and again what it has in
// its log, or can't tell from what it has since it forgot the producer; a broker that recognises or takes what it
// is sent is no reason.
func (r *rules) stuck(l *life, err *kafka.StuckError) {
	r.w.count(gotStuck)
	if n := r.w.cluster.parts[err.Partition].refused[l]; n < refusalsLeast {
		r.broken("life %d calls partition %d stuck, whose leader refused %d times what it has: %v", l.n, err.Partition, n, err)
	}
}

// left: a stop says how many events will repeat at most.
func (r *rules) left(l *life, left *relay.UnackedError) {
	pg := r.w.pg
	for _, position := range l.stayed { // the relay counts what it begins to hand over
		if e := r.events[position]; e != nil && l.handed[e] == 0 {
			l.handed[e] = 1
		}
	}
	if most := r.handedPast(l, left.From) + l.unsure; left.Events > most {
		r.broken("a stop says that %d events past %s may repeat, and %d were handed over", left.Events, left.From, most)
	}
	if !l.troubled.Load() && l.refused == nil && !l.behind(left.From) && time.Since(l.askedAt) < r.w.drain {
		r.broken("life %d leaves %d events after %s of %s, and nothing was wrong", l.n, left.Events, time.Since(l.askedAt), r.w.drain)
	}
	if pg.row == nil || pg.row.Owner != l.token {
		return // what is left is another relay's matter
	}
	if left.From < l.known || left.From > pg.row.Stored {
		r.broken("a stop says that %s is stored, where %s was answered and %s is stored", left.From, l.known, pg.row.Stored)
	}
	if n := r.ahead(l); n > left.Events {
		r.broken("a stop says that at most %d events repeat, and it is %d", left.Events, n)
	}
}

// told: a life is told the stored position as it takes the slot. Events that a write covered whose answer was lost stay
// in the relay's count, which is one from above.
func (l *life) told(stored wal.LSN) {
	l.unsure += l.world.rules.handedPast(l, l.known) - l.world.rules.handedPast(l, max(l.known, stored))
	l.known = max(l.known, stored)
}

// behind says whether events past a position were handed over in an earlier session only: their acks don't count any more,
// and this one hasn't come to them yet.
func (l *life) behind(from wal.LSN) bool {
	for e, session := range l.handed {
		if e.txn.end > from && session < l.sessions {
			return true
		}
	}
	return false
}

// handedPast counts the events behind a position that a life handed to its sink.
func (r *rules) handedPast(l *life, from wal.LSN) (n int) {
	for e := range l.handed {
		if e.txn.end > from {
			n++
		}
	}
	return n
}

// ahead counts the events in the log past the stored position that a life took: a start repeats them.
func (r *rules) ahead(l *life) (n int) {
	for _, e := range r.events {
		if e.taken == l.n && e.copies > 0 && e.txn.end > r.w.pg.row.Stored {
			n++
		}
	}
	return n
}
