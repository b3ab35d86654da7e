package simulation

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/cdc-relay/cdc-relay/sink"
	"github.com/cdc-relay/cdc-relay/wal"
)

// rules are what must hold after every operation. What they know of positions, partitions and
// records they work out themselves.
type rules struct {
	w   *world
	err error // what was broken first

	events map[string]*event   // by position
	queues map[string][]*event // of one key, in the order of their commits
	heads  map[string]int      // how many of a queue are in the log
	legal  map[wal.LSN]bool    // positions that may be stored

	began     wal.LSN // where the slot was made
	stored    wal.LSN
	confirmed wal.LSN
	seen      int // transactions that the stored position covers
	clean     int // the life that ended well last
	forgotten int // times that brokers forgot their producers
	repeats   int
}

func newRules(w *world) *rules {
	return &rules{w: w, events: map[string]*event{}, queues: map[string][]*event{}, heads: map[string]int{}, legal: map[wal.LSN]bool{}}
}

// broken notes the first breach.
func (r *rules) broken(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

// expect adds an event to what must be published.
func (r *rules) expect(e *event) {
	r.events[e.position()] = e
	r.queues[e.order()] = append(r.queues[e.order()], e)
}

// begin says where the slot begins: nothing before it is expected.
func (r *rules) begin(at wal.LSN) {
	r.began = at
	r.named(at)
	before := func(e *event) bool { return e.txn.commit < at }
	for k := range r.queues {
		r.queues[k] = slices.DeleteFunc(r.queues[k], before)
	}
	for k, e := range r.events {
		if before(e) {
			delete(r.events, k)
		}
	}
}

// named says that the server has named a position outside of a transaction.
func (r *rules) named(l wal.LSN) { r.legal[l] = true }

// sent: Postgres sends a row.
func (r *rules) sent(e *event) {
	if e.sent > 1 {
		r.w.count(rowSentAgain)
	}
}

// started checks a START: nothing that is due may be skipped, nothing that is covered may come
// again, and nothing at all after a clean stop.
func (r *rules) started(s *source) {
	for i, t := range r.w.pg.txns {
		for _, e := range t.events {
			switch {
			case i < s.next && e.copies == 0 && t.commit >= r.began:
				r.broken("the start at %s skips %s, which is not in the log", s.start, e)
			case i >= s.next && e.copies > 0 && t.end <= s.l.read:
				r.broken("the start at %s repeats %s, which the stored position covers", s.start, e)
			case i >= s.next && e.taken == r.clean && r.clean > 0:
				r.broken("the start at %s repeats %s, although life %d took it and stopped cleanly", s.start, e, r.clean)
			}
		}
	}
}

// taken: a relay hands a record to its sink.
func (r *rules) taken(l *life, rec *sink.Record) {
	size := int64(weight)
	e := r.events[headerOf(rec)]
	if e == nil {
		r.broken("a record is published that nobody expects: %s", rec.DedupeKey)
	} else {
		size += int64(e.want.bytes())
		e.delivered++
		e.taken = l.n
		l.handed[e] = l.sessions
		if e.delivered > e.sent {
			r.broken("%s was sent %d times and published %d times", e, e.sent, e.delivered)
		}
	}
	if l.disowned {
		r.broken("life %d publishes %s, and was told that another relay owns the slot", l.n, rec.Position)
	}
	if l.refused != nil {
		// One may have been on its way.
		if l.passed++; l.passed > 1 {
			r.broken("%s passes %s, which is refused", rec.Position, l.refused)
		}
	}
	if l.events > 0 && l.bytes+size > r.w.limits.bytes {
		r.broken("%d bytes are in flight, more than %d", l.bytes+size, r.w.limits.bytes)
	}
	l.events++
	l.bytes += size
	if l.events > r.w.limits.events {
		r.broken("%d events are in flight, more than %d", l.events, r.w.limits.events)
	}
	if l.events == r.w.limits.events {
		r.w.count(limitReached)
	}
}

// rejected: the sink asks what to do with a record that Kafka refuses.
func (r *rules) rejected(l *life, rec *sink.Record) {
	r.w.count(recordRefused)
	if e := r.events[headerOf(rec)]; e != nil && l.refused == nil {
		l.refused, l.passed = e, 0
	}
}

// weight is what an event in flight counts beside its bytes: docs/GUARANTEES.md bounds both together.
const weight = 512

func headerOf(rec *sink.Record) string {
	for _, h := range rec.Headers {
		if h.Key == "position" {
			return string(h.Value)
		}
	}
	return ""
}

// acked: the sink tells the relay that a record is published.
func (r *rules) acked(l *life, rec *sink.Record) {
	e := r.events[headerOf(rec)]
	if e == nil {
		return // taken has said so
	}
	if l.refused == e {
		l.refused = nil
	}
	e.acked++
	if e.acked > e.copies {
		r.broken("%s is acknowledged and not in the log", e)
	}
	l.events--
	l.bytes -= int64(e.want.bytes()) + weight
}

// appended: a record reaches the log.
func (r *rules) appended(partition int, rec *record, l *life) *event {
	position := ""
	for _, h := range rec.headers {
		if h.key == "position" {
			position = string(h.value)
		}
	}
	e := r.events[position]
	if e == nil {
		r.broken("a record is in the log that nobody expects: position %q, key %q", position, rec.key)
		return nil
	}
	if why := e.want.differs(rec); why != "" {
		r.broken("%s has another %s in the log", e, why)
	}
	if n := r.w.pg.pinned; n == nil {
		r.broken("%s is in the log before a contract was stored", e)
	} else if home := e.home(r.w.count0); home != partition {
		r.broken("%s is on partition %d, not on %d", e, partition, home)
	}
	if l.handed[e] == 0 || l.disowned && l.before[e] == 0 {
		r.broken("life %d has %s appended, which it wasn't handed before it was told that another relay owns the slot", l.n, e)
	}
	e.copies++
	if e.copies == 1 {
		k := e.order()
		if next := r.queues[k][r.heads[k]]; next != e {
			r.broken("%s is in the log before %s of the same key", e, next)
		}
		r.heads[k]++
		return e
	}
	r.repeats++
	r.w.count(eventRepeated)
	if e.copies > e.delivered+r.forgotten {
		r.broken("%s is in the log %d times, and was handed over %d times", e, e.copies, e.delivered)
	}
	return e
}

// differs says what of a record isn't as it must be.
func (r *record) differs(got *record) string {
	same := func(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }
	switch {
	case !same(r.key, got.key):
		return fmt.Sprintf("key: %q, want %q", got.key, r.key)
	case !same(r.value, got.value):
		return fmt.Sprintf("value: %q, want %q", got.value, r.value)
	case r.ms != got.ms:
		return fmt.Sprintf("timestamp: %d, want %d", got.ms, r.ms)
	case !slices.EqualFunc(r.headers, got.headers, func(a, b header) bool { return a.key == b.key && same(a.value, b.value) }):
		return fmt.Sprintf("headers: %q, want %q", got.headers, r.headers)
	}
	return ""
}

// check looks at what is stored and confirmed.
func (r *rules) check() {
	pg := r.w.pg
	if r.began == 0 {
		return
	}
	stored, confirmed := pg.row.Stored, pg.slot.confirmed
	if stored < r.stored {
		r.broken("the stored position went back from %s to %s", r.stored, stored)
	}
	if stored > r.stored && !r.legal[stored] {
		r.broken("%s is stored, which is neither the end of a transaction nor a position that the server named between two", stored)
	}
	if confirmed > stored {
		r.broken("the slot is confirmed up to %s, and %s is stored", confirmed, stored)
	}
	if confirmed < r.confirmed {
		r.broken("the confirmed position went back from %s to %s", r.confirmed, confirmed)
	}
	r.stored, r.confirmed = stored, confirmed
	for r.seen < len(pg.txns) && pg.txns[r.seen].end <= stored {
		for _, e := range pg.txns[r.seen].events {
			if e.copies == 0 && e.txn.commit >= r.began {
				r.broken("%s is stored, and %s is not in the log", stored, e)
			}
		}
		r.seen++
	}
	if r.seen < len(pg.txns) && pg.txns[r.seen].commit < stored {
		r.broken("%s is stored, which lies inside of a transaction that ends at %s", stored, pg.txns[r.seen].end)
	}
}

// missing returns an event that is not in the log, nil when everything is there.
func (r *rules) missing() *event {
	for _, t := range r.w.pg.txns {
		for _, e := range t.events {
			if e.copies == 0 && t.commit >= r.began {
				return e
			}
		}
	}
	return nil
}
