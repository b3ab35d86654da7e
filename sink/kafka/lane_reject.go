package kafka

import (
	"math"
	"slices"

	"github.com/cdc-relay/cdc-relay/sink"
)

// How a lane finds its way after "no". The facts behind it, measured on Kafka 4.3:
//
//   - A batch is recognised as a repeat by its first and last sequence number alone, and
//     after a broker's restart only the last one is remembered. So at one sequence number
//     only prefixes of one and the same run of records are ever sent; where a verdict takes
//     a record out of that run after an attempt in doubt, a new epoch begins.
//   - Size, time and key are looked at before repeats are: a repeat of what is in the log
//     can be refused. So a refused batch that may be in the log stays an ancestor until a
//     piece of it is acknowledged, which proves that the whole isn't there, or meets a
//     sequence error, which says that it is: then the whole goes out again as it was.
//   - A refusal uses up no sequence number.

// rejected handles a batch that the broker refuses for a record's sake.
func (l *lane) rejected(ev *event, out []action) []action {
	b := l.cur
	if len(b.records) == 1 {
		return l.refuse(ev.code, ev.reason, out)
	}
	if ev.code == codeMessageTooLarge || ev.code == codeListTooLarge {
		l.learned = max(b.bytes/2, minBatchCap)
		l.sinceGrow = 0
	}
	return l.split(ev.bad, out)
}

// refuse handles the refusal of a batch of one record.
func (l *lane) refuse(code int16, reason string, out []action) []action {
	l.code, l.reason = code, reason
	if l.inDoubt() {
		l.state = probing
		return append(out, action{kind: actProbe, batch: l.cur})
	}
	return l.ask(false, out)
}

// inDoubt says that cur, or a whole that it is a part of, may be in the log.
func (l *lane) inDoubt() bool { return l.cur.maybe || len(l.anc) > 0 }

func (l *lane) ask(doubt bool, out []action) []action {
	l.state = asking
	if l.cur.flaw != sound {
		l.code, l.reason = codeNone, ""
	}
	return append(out, action{kind: actAsk, batch: l.cur, code: l.code, reason: l.reason, doubt: doubt})
}

// split cuts cur so that each record of bad stands alone, or into halves where nothing
// usable is named. The pieces are sent next, from the same sequence number on.
func (l *lane) split(bad []int32, out []action) []action {
	b := l.cur
	l.cur = nil
	mark := len(l.segs)
	b.unwire()
	if b.maybe {
		l.anc = append(l.anc, ancestor{b, mark})
	}
	for _, at := range slices.Backward(cuts(bad, len(b.records))) {
		l.segs = append(l.segs, b.slice(at.from, at.to))
	}
	l.attempts, l.cuts = 0, 0
	return l.proceed(out)
}

type span struct{ from, to int }

// cuts is a partition of n records into spans, two at least.
func cuts(bad []int32, n int) []span {
	bad = slices.Clone(bad)
	slices.Sort(bad)
	bad = slices.Compact(bad)
	var out []span
	from := 0
	for _, i := range bad {
		at := int(i)
		if at < 0 || at >= n {
			continue
		}
		if at > from {
			out = append(out, span{from, at})
		}
		out = append(out, span{at, at + 1})
		from = at + 1
	}
	if from == 0 {
		return []span{{0, n / 2}, {n / 2, n}}
	}
	if from < n {
		out = append(out, span{from, n})
	}
	return out
}

// sequenceError handles an answer that contradicts our sequence numbers.
func (l *lane) sequenceError(ev *event, out []action) []action {
	switch {
	case len(l.anc) > 0:
		return l.pop(len(l.anc)-1, out)
	case l.cur.maybe:
		// It would have been recognised as the last batch: it isn't in the log, and neither
		// is the producer's state as we know it. A new epoch fences late copies.
		if l.bumps++; l.bumps > maxBumps {
			return l.stall(haltBumps, ev.code, out)
		}
		l.newEpoch()
	case ev.code == codeUnknownProducer:
		if l.bumps++; l.bumps > maxBumps {
			return l.stall(haltBumps, ev.code, out)
		}
		l.id, l.seq, l.doubted = -1, 0, false
	default:
		// Sent for the first time, right behind what was acknowledged: that is gone.
		return l.stall(haltRegressed, ev.code, out)
	}
	return l.again(false, out)
}

// pop drops the pieces of ancestor i and sends it again as it was.
func (l *lane) pop(i int, out []action) []action {
	if l.pops++; l.pops > maxPops {
		return l.stall(haltPops, l.code, out)
	}
	a := l.anc[i]
	l.anc = l.anc[:i]
	for _, s := range l.segs[a.segs:] {
		s.free()
	}
	l.segs = l.segs[:a.segs]
	l.cur.free()
	l.cur = a.batch
	l.cur.whole = true
	return l.again(false, out)
}

// newEpoch starts the sequence afresh. Nothing sent so far may be in the log under it.
func (l *lane) newEpoch() {
	if l.epoch >= maxEpoch {
		l.id = -1
	} else {
		l.epoch++
	}
	l.seq = 0
	l.doubted = false
	if l.cur != nil {
		l.cur.maybe = false
	}
}

func (l *lane) dropAncestors() {
	// Their memory is shared with pieces that are still under way: left to the collector.
	clear(l.anc)
	l.anc = l.anc[:0]
}

// probed uses what the leader knows of our producer to tell whether what is in doubt is in
// its log. "It isn't" holds for now only, as a late copy may still arrive: it lets the verdict
// be asked without a doubt and changes nothing else.
func (l *lane) probed(ev *event, out []action) []action {
	switch {
	case !ev.known:
	case ev.lastSeq < 0:
		return l.ask(l.used, out)
	case ev.epoch < l.epoch:
		return l.ask(l.seq != 0, out)
	case ev.epoch > l.epoch:
	case ev.lastSeq == (l.seq-1)&math.MaxInt32 && l.used:
		return l.ask(false, out)
	case l.cur.maybe && ev.lastSeq == l.lastOf(l.cur):
		if l.pops++; l.pops > maxPops {
			return l.stall(haltPops, l.code, out)
		}
		return l.again(false, out)
	default:
		for i, a := range l.anc {
			if ev.lastSeq == l.lastOf(a.batch) {
				return l.pop(i, out)
			}
		}
	}
	// It can't be told. The verdict is asked all the same: at worst the record is in the log
	// and put away as well.
	return l.ask(true, out)
}

func (l *lane) lastOf(b *batch) int32 {
	return (l.seq + int32(len(b.records)) - 1) & math.MaxInt32
}

// decided carries out the verdict on cur.
func (l *lane) decided(v sink.Verdict, failed bool, out []action) []action {
	b := l.cur
	if failed || v != sink.Settled {
		l.attempts++
		l.state = backingOff
		return append(out, action{kind: actBackoff, attempt: l.attempts, slow: failed || b.flaw != sound})
	}
	l.cur = nil
	if l.doubted {
		// A late copy of what was in doubt could still reach the log and pass for what is
		// sent next at the same sequence number.
		l.dropAncestors()
		l.newEpoch()
	}
	l.attempts = 0
	return l.proceed(append(out, action{kind: actSettled, batch: b}))
}

// stall stops the lane for good.
func (l *lane) stall(why haltKind, code int16, out []action) []action {
	return l.stallAt(why, code, -1, out)
}

// stallAt stops the lane because of an answer that names an offset.
func (l *lane) stallAt(why haltKind, code int16, offset int64, out []action) []action {
	l.state = halted
	return append(out, action{kind: actHalt, halt: why, code: code, offset: offset})
}
