package kafka

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/cdc-relay/cdc-relay/sink"
)

// The lane is explored exhaustively against a model of a partition's leader: every order of
// appends, answers, lost answers, late copies, rejections, verdicts and closing, to a depth
// of at least 8 steps behind states that are already interesting.

// modelBroker is a partition's log and what the leader knows of producers. As a real one
// does after a restart, it remembers one batch.
type modelBroker struct {
	log    []int // the records' numbers, by offset
	known  bool
	id     int64
	epoch  int16
	first  int32
	last   int32
	base   int64
	bad    uint // bit per record that is refused
	nextID int64
}

// world is a lane with its broker, and what the checks need to know.
type world struct {
	lane    lane
	b       modelBroker
	appends int       // records handed over
	settled int       // records settled: they settle in order
	put     uint      // bit per record settled by a verdict
	sent    *batch    // what is in flight
	late    []lateReq // sent, given up, and still on its way
	toggles int       // changes of bad so far
	wild    int       // things that a good broker doesn't do, so far

	forgot   bool // the broker lost the producer's state, or lied about it
	blind    bool // a verdict settled a record while it couldn't be told whether it is in the log
	cut      bool // the log lost its end once
	closed   bool
	trace    []string
	failures []string
}

type lateReq struct {
	id    int64
	epoch int16
	seq   int32
	recs  []int
}

var modelRecords = func() []*sink.Record {
	rs := make([]*sink.Record, 16)
	for i := range rs {
		rs[i] = &sink.Record{Ticket: uint64(i)}
	}
	return rs
}()

const modelRecordSize = 30 // what recordSize says of them is below

func (w *world) clone() *world {
	c := *w
	m := make(map[*batch]*batch)
	cp := func(b *batch) *batch {
		if b == nil {
			return nil
		}
		if n := m[b]; n != nil {
			return n
		}
		n := *b
		n.records = slices.Clone(b.records)
		m[b] = &n
		return &n
	}
	c.lane.queue.buf = slices.Clone(w.lane.queue.buf[w.lane.queue.head:])
	c.lane.queue.head = 0
	c.lane.cur = cp(w.lane.cur)
	c.sent = cp(w.sent)
	c.lane.segs = make([]*batch, len(w.lane.segs))
	for i, b := range w.lane.segs {
		c.lane.segs[i] = cp(b)
	}
	c.lane.anc = make([]ancestor, len(w.lane.anc))
	for i, a := range w.lane.anc {
		c.lane.anc[i] = ancestor{cp(a.batch), a.segs}
	}
	c.b.log = slices.Clone(w.b.log)
	c.late = slices.Clone(w.late)
	c.trace = slices.Clone(w.trace)
	c.failures = nil
	return &c
}

var modelSeed = maphash.MakeSeed()

// hash is a digest of all that decides about the future.
func (w *world) hash() uint64 {
	var h maphash.Hash
	h.SetSeed(modelSeed)
	put := func(vs ...int64) {
		var buf [8]byte
		for _, v := range vs {
			binary.LittleEndian.PutUint64(buf[:], uint64(v))
			h.Write(buf[:])
		}
	}
	flag := func(b bool) int64 {
		if b {
			return 1
		}
		return 0
	}
	batch := func(b *batch) {
		if b == nil {
			put(-7)
			return
		}
		put(int64(len(b.records)), int64(b.records[0].Ticket), flag(b.maybe), flag(b.whole), b.id, int64(b.epoch), int64(b.seq))
	}
	l := &w.lane
	put(int64(l.state), flag(l.closed), int64(l.queue.len()), int64(len(l.segs)), int64(len(l.anc)))
	batch(l.cur)
	for _, s := range l.segs {
		batch(s)
	}
	for _, a := range l.anc {
		batch(a.batch)
		put(int64(a.segs))
	}
	put(l.id, int64(l.epoch), int64(l.seq), l.end, int64(l.misses), int64(l.pops), int64(l.bumps), int64(l.cuts),
		flag(l.topicOff), flag(l.used), flag(l.doubted), int64(l.learned), int64(l.sinceGrow))
	put(int64(len(w.b.log)), flag(w.b.known), w.b.id, int64(w.b.epoch), int64(w.b.first), int64(w.b.last), w.b.base, int64(w.b.bad), w.b.nextID)
	for _, r := range w.b.log {
		put(int64(r))
	}
	put(int64(w.appends), int64(w.settled), int64(w.put), int64(w.toggles), int64(w.wild), flag(w.forgot), flag(w.blind), flag(w.cut), flag(w.closed))
	for _, q := range w.late {
		put(q.id, int64(q.epoch), int64(q.seq), int64(len(q.recs)), int64(q.recs[0]))
	}
	return h.Sum64()
}

func (w *world) failf(format string, args ...any) {
	w.failures = append(w.failures, fmt.Sprintf(format, args...))
}

// deliver is the broker's treatment of a batch, in the order in which Kafka looks at things:
// the records first, then the sequence.
func (w *world) deliver(q lateReq, named bool) event {
	b := &w.b
	ev := event{kind: evAnswer, class: acked, offset: -1}
	for i, r := range q.recs {
		if b.bad>>r&1 == 1 {
			ev.class, ev.code = rejected, 87
			if named {
				ev.bad = append(ev.bad, int32(i))
			}
		}
	}
	if ev.class == rejected {
		return ev
	}
	n := int32(len(q.recs))
	switch {
	case !b.known || q.id != b.id:
		// Nothing known of this producer: any sequence is taken.
	case q.epoch < b.epoch:
		ev.class, ev.code = sequence, 47
		return ev
	case q.epoch > b.epoch:
		if q.seq != 0 {
			ev.class, ev.code = sequence, 45
			return ev
		}
	case q.seq == b.first && q.seq+n-1 == b.last:
		ev.offset = b.base
		return ev
	case q.seq != b.last+1:
		ev.class, ev.code = sequence, 45
		return ev
	}
	b.known, b.id, b.epoch, b.first, b.last = true, q.id, q.epoch, q.seq, q.seq+n-1
	b.base = int64(len(b.log))
	ev.offset = b.base
	for _, r := range q.recs {
		w.logged(r)
	}
	return ev
}

// logged appends a record to the log and checks order, holes and repeats.
func (w *world) logged(r int) {
	if slices.Contains(w.b.log, r) {
		if !w.forgot && !w.blind {
			w.failf("record %d is in the log twice", r)
		}
	} else {
		for j := range r {
			if !slices.Contains(w.b.log, j) && w.put>>j&1 == 0 && !w.cut {
				w.failf("record %d is in the log before record %d is settled", r, j)
			}
		}
		if len(w.b.log) > 0 && slices.Max(w.b.log) > r && !w.cut {
			w.failf("record %d is in the log for the first time behind %d", r, slices.Max(w.b.log))
		}
	}
	w.b.log = append(w.b.log, r)
}

// step lets the lane make a step and checks what it wants.
func (w *world) step(ev event) {
	for _, a := range w.lane.step(ev, nil) {
		switch a.kind {
		case actSend:
			w.checkSend(a.batch)
			w.sent = a.batch
		case actReport:
			if w.lost() {
				w.failf("records are acknowledged although acknowledged ones are gone")
			}
			for _, r := range a.batch.records {
				n := int(r.Ticket)
				if !slices.Contains(w.b.log, n) {
					w.failf("record %d is acknowledged and not in the log", n)
				}
				w.settle(n)
			}
		case actSettled:
			n := int(a.batch.records[0].Ticket)
			w.put |= 1 << n
			w.settle(n)
		case actAsk:
			if n := int(a.batch.records[0].Ticket); !a.doubt && !w.forgot && !w.blind && slices.Contains(w.b.log, n) {
				w.failf("a verdict is asked on record %d, which is in the log, without a doubt", n)
			}
		case actHalt:
			if w.wild == 0 && w.toggles == 0 {
				w.failf("halted although the broker did nothing wrong: %d, %s", a.halt, codeName(a.code))
			}
		}
		if w.closed && a.kind != actReport && a.kind != actSettled && a.kind != actHeal && a.kind != actHalt {
			w.failf("a closed lane wants action %d", a.kind)
		}
	}
	if got := w.lane.waiting(); got != w.appends-w.settled {
		w.failf("%d records wait, want %d", got, w.appends-w.settled)
	}
}

func (w *world) checkSend(b *batch) {
	if w.sent != nil {
		w.failf("a second batch in flight")
	}
	for i, r := range b.records {
		if int(r.Ticket) != w.settled+i {
			w.failf("record %d sent, %d is the first that isn't settled", r.Ticket, w.settled+i)
		}
	}
	if b.id < 0 {
		w.failf("a batch sent without a producer id")
	}
}

func (w *world) settle(n int) {
	if n != w.settled {
		w.failf("record %d settled, want %d", n, w.settled)
	}
	w.settled = n + 1
}

// answer ends the flight of what was sent.
func (w *world) answer(ev event) {
	w.sent = nil
	ev.kind = evAnswer
	w.step(ev)
}

func (w *world) inFlight() lateReq {
	q := lateReq{id: w.sent.id, epoch: w.sent.epoch, seq: w.sent.seq}
	for _, r := range w.sent.records {
		q.recs = append(q.recs, int(r.Ticket))
	}
	return q
}
