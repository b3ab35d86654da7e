package kafka

import "math"

// lane is the state machine of one partition: a queue, at most one batch in flight, and its
// own producer id, epoch and sequence. It is pure: step takes what happened and appends what
// is to be done. It isn't safe for concurrent use.
//
// What it promises, for any behaviour of the broker but losing acknowledged records: records
// are appended in their order without a hole, each is settled at most once, nothing is sent
// past a record that isn't settled, and none is appended twice unless the broker lost the
// producer's state.
type lane struct {
	state  laneState
	closed bool

	queue fifo
	segs  []*batch // pieces of split batches, the next one last
	cur   *batch
	// anc are split batches that may be in the log as a whole, the outermost first. All
	// begin at the sequence of what is sent now.
	anc []ancestor

	id    int64
	epoch int16
	seq   int32 // of the next record
	end   int64 // offset behind the last acknowledged record; -1 before the first

	attempts int
	misses   int
	pops     int
	bumps    int
	cuts     int
	topicOff bool // actStop was the last said about the topic
	used     bool // something was acknowledged under id
	doubted  bool // since the last ack, something sent under (id, epoch) had no definite answer

	code   int16 // why cur is refused, while probing or asking
	reason string

	limit     int // bytes of a batch, as configured
	learned   int // and as learned from MESSAGE_TOO_LARGE; 0 where nothing was
	sinceGrow int
}

// ancestor is a split batch, and how many segs there were before its pieces.
type ancestor struct {
	*batch
	segs int
}

func newLane(limit int) lane {
	return lane{id: -1, end: -1, limit: limit}
}

// step applies ev and appends what is to be done to out.
func (l *lane) step(ev event, out []action) []action {
	from := len(out)
	switch ev.kind {
	case evAppend:
		out = l.append(entry{ev.record, ev.size, ev.flaw}, out)
	case evTake:
		out = l.take(ev.limit, out)
	case evAnswer:
		if l.state == inFlight {
			out = l.answer(&ev, out)
		}
	case evTimer:
		if l.state == backingOff {
			out = l.proceed(out)
		}
	case evID:
		if l.state == noID {
			l.id, l.epoch, l.seq, l.used = ev.id, ev.epoch, 0, false
			out = l.proceed(out)
		}
	case evProbed:
		if l.state == probing {
			out = l.probed(&ev, out)
		}
	case evVerdict:
		if l.state == asking {
			out = l.decided(ev.verdict, ev.failed, out)
		}
	case evHalt:
		if l.state != inFlight && l.state != asking && l.state != probing {
			l.state = halted
		}
		l.closed = true
	case evClose:
		l.closed = true
	}
	if l.closed {
		out = onlyResults(out, from)
	}
	return out
}

// onlyResults keeps of out[from:] what a closed lane still has to say.
func onlyResults(out []action, from int) []action {
	keep := out[:from]
	for _, a := range out[from:] {
		switch a.kind {
		case actReport, actSettled, actHeal, actHalt:
			keep = append(keep, a)
		}
	}
	return keep
}

// solo says that the next batch wants a request of its own.
func (l *lane) solo() bool { return l.cuts >= soloAfter }

func (l *lane) append(e entry, out []action) []action {
	l.queue.push(e)
	if l.state == idle {
		out = l.proceed(out)
	}
	return out
}

// proceed goes on with what is next, if there is something.
func (l *lane) proceed(out []action) []action {
	if l.cur == nil && len(l.segs) == 0 {
		if l.queue.len() == 0 {
			l.state = idle
			return out
		}
		if l.queue.peek().flaw != sound {
			l.cur = l.single()
		}
	}
	if l.cur != nil && l.cur.flaw != sound {
		return l.ask(false, out)
	}
	if l.id < 0 {
		l.state = noID
		return append(out, action{kind: actNeedID})
	}
	l.state = ready
	return append(out, action{kind: actReady})
}

// take freezes the next batch if it fits into limit bytes.
func (l *lane) take(limit int, out []action) []action {
	if l.state != ready || l.closed {
		return out
	}
	switch {
	case l.cur != nil:
	case len(l.segs) > 0:
		l.cur = l.segs[len(l.segs)-1]
		l.segs = l.segs[:len(l.segs)-1]
	default:
		l.cur = l.freeze(limit)
		if l.cur == nil {
			return out
		}
	}
	if l.cur.bytes > limit {
		return out
	}
	b := l.cur
	b.id, b.epoch, b.seq = l.id, l.epoch, l.seq
	l.state = inFlight
	return append(out, action{kind: actSend, batch: b})
}

// single pops the head of the queue as a batch of its own.
func (l *lane) single() *batch {
	e := l.queue.pop()
	b := newBatch()
	b.records = append(b.records, e.r)
	b.bytes = batchOverhead + int(e.size)
	b.flaw = e.flaw
	return b
}

// freeze pops as many records as fit, at least one, into a batch. It returns nil when not
// even the first fits into limit.
func (l *lane) freeze(limit int) *batch {
	if batchOverhead+int(l.queue.peek().size) > limit {
		return nil
	}
	if most := l.batchCap(); limit > most {
		limit = most
	}
	b := l.single()
	for l.queue.len() > 0 {
		e := l.queue.peek()
		if e.flaw != sound || b.bytes+int(e.size) > limit {
			break
		}
		b.records = append(b.records, e.r)
		b.bytes += int(e.size)
		l.queue.pop()
	}
	return b
}

func (l *lane) batchCap() int {
	if l.learned > 0 {
		return l.learned
	}
	return l.limit
}

func (l *lane) answer(ev *event, out []action) []action {
	b := l.cur
	c := ev.class
	if c == acked && ev.code == codeDuplicateSequence && !b.maybe {
		// The broker has these sequence numbers, but never had them from us.
		c = sequence
	}
	if l.topicOff && (c == acked || c == rejected || c == sequence) {
		l.topicOff = false
		out = append(out, action{kind: actHeal})
	}
	switch c {
	case acked:
		return l.acked(ev.offset, out)
	case refused:
		return l.again(false, out)
	case moved:
		return l.again(true, out)
	case missing:
		l.misses++
		if l.misses > maxMisses {
			return l.stop(ev, out)
		}
		return l.again(true, out)
	case rejected:
		return l.rejected(ev, out)
	case sequence:
		return l.sequenceError(ev, out)
	case stopped:
		return l.stop(ev, out)
	case strange:
		b.maybe, l.doubted = true, true
		return l.stop(ev, out)
	default:
		b.maybe, l.doubted = true, true
		return l.lost(ev, out)
	}
}

func (l *lane) acked(offset int64, out []action) []action {
	b := l.cur
	n := len(b.records)
	if offset >= 0 {
		if offset < l.end {
			// Offsets only grow. What was acknowledged before is gone, or the answer is about
			// another batch with our sequence numbers: nothing is believed any more.
			return l.stallAt(haltRegressed, codeNone, offset, out)
		}
		l.end = offset + int64(n)
	}
	l.seq = (l.seq + int32(n)) & math.MaxInt32
	// Every ancestor begins at this batch's sequence: its first piece in the log proves that
	// the whole isn't there.
	l.dropAncestors()
	l.attempts, l.misses, l.pops, l.bumps, l.cuts = 0, 0, 0, 0, 0
	l.used, l.doubted = true, false
	l.grow()
	l.cur = nil
	return l.proceed(append(out, action{kind: actReport, batch: b, offset: offset}))
}

// grow forgets a learned limit step by step: the topic's limit may have been raised.
func (l *lane) grow() {
	if l.learned == 0 {
		return
	}
	if l.sinceGrow++; l.sinceGrow < growAfter {
		return
	}
	l.sinceGrow = 0
	if l.learned *= 2; l.learned >= l.limit {
		l.learned = 0
	}
}

// again sends cur once more, as it is, after a while.
func (l *lane) again(refresh bool, out []action) []action {
	l.attempts++
	l.state = backingOff
	l.cur.unwire() // in an outage every lane waits, and the encoded form is as large as the records
	return append(out, action{kind: actBackoff, attempt: l.attempts, refresh: refresh, slow: l.topicOff})
}

func (l *lane) stop(ev *event, out []action) []action {
	l.topicOff = true
	out = append(out, action{kind: actStop, code: ev.code, reason: ev.reason})
	return l.again(true, out)
}

// lost handles an attempt without a definite answer.
func (l *lane) lost(ev *event, out []action) []action {
	b := l.cur
	if !ev.cut {
		l.cuts = 0
		return l.again(true, out)
	}
	if l.cuts < soloAfter || ev.alone {
		l.cuts++
	}
	if l.cuts < soloAfter+maxCuts || b.whole {
		return l.again(true, out)
	}
	// A broker that closes the connection on this request and answers others finds it too
	// large (socket.request.max.bytes).
	if len(b.records) > 1 {
		return l.split(nil, out)
	}
	if b.bytes < cutSuspected {
		return l.again(true, out)
	}
	return l.refuse(codeMessageTooLarge, "the broker closes the connection on it", out)
}
