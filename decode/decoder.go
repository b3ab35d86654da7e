package decode

import (
	"math"
	"time"

	"github.com/cdc-relay/cdc-relay/wal"
)

// Decoder turns the frames of one stream into changes. It checks what it is given: the
// bytes of each message, and that messages come in an order that the protocol allows.
// Not for concurrent use.
type Decoder struct {
	relations map[uint32]*Relation

	open       bool // between Begin and Commit
	commit     wal.LSN
	commitTime time.Time
	seq        uint32  // of the next event of the open transaction
	end        wal.LSN // of the last complete transaction

	tuple Tuple // reused for every row
	msg   Msg   // reused for every message
	err   error // the first error, for ever
}

// New returns a Decoder at the beginning of a stream, outside any transaction.
func New() *Decoder {
	return &Decoder{relations: make(map[uint32]*Relation)}
}

// Decode says what the next frame of the stream means. The change borrows from the frame
// and from the decoder: it is valid until the next call, or the release of the frame's
// batch.
//
// An error is a *ProtocolError and final: every later call returns the same one and no
// change.
func (d *Decoder) Decode(f wal.Frame) (Change, error) {
	if d.err != nil {
		return Change{}, d.err
	}
	if f.Data == nil {
		if d.open {
			return Change{}, nil
		}
		return Change{Kind: Idle, End: f.End}, nil
	}
	if len(f.Data) == 0 {
		return d.refuse(0, &reader{what: "it is empty", hint: hintDamaged})
	}
	r := reader{data: f.Data, off: 1}
	c := d.message(f.Data[0], &r)
	r.end()
	if r.bad {
		return d.refuse(f.Data[0], &r)
	}
	return c, nil
}

// refuse poisons the decoder with what the reader failed on.
func (d *Decoder) refuse(letter byte, r *reader) (Change, error) {
	e := &ProtocolError{Letter: letter, Offset: r.at, What: r.what, Hint: r.hint}
	if d.open {
		e.Commit = d.commit
	}
	d.err = e
	return Change{}, e
}

// message reads one message. Where it fails, the reader says so and the change is void.
func (d *Decoder) message(letter byte, r *reader) Change {
	switch letter {
	case 'I':
		return d.insert(r)
	case 'M':
		return d.logical(r)
	case 'B':
		return d.begin(r)
	case 'C':
		return d.complete(r)
	case 'U':
		return d.update(r)
	case 'D':
		return d.remove(r)
	case 'T':
		return d.truncate(r)
	case 'R':
		d.relation(r)
	case 'Y':
		skipType(r)
	case 'O':
		d.origin(r)
	default:
		if laterLetterName(letter) != "" {
			r.fail(0, hintVersion, "protocol 1 does not have it")
		} else {
			r.fail(0, hintDamaged, "no message of the protocol has this letter")
		}
	}
	return Change{Op: letter}
}

func (d *Decoder) begin(r *reader) Change {
	if d.open {
		r.fail(0, hintDamaged, "the transaction before it has not ended")
		return Change{}
	}
	commit := r.lsn("the commit LSN")
	at := postgresTime(r.uint64("the commit time"))
	r.uint32("the transaction id")
	r.end()
	if !r.bad && commit == 0 {
		r.fail(1, hintDamaged, "the commit LSN is 0/0")
	}
	// Positions are ordered by it. Two commits may touch: the record of one begins where
	// that of the other ends.
	if !r.bad && commit < d.end {
		r.fail(1, hintDamaged, "it commits at %s, before %s, the end of the transaction before it", commit, d.end)
	}
	if r.bad {
		return Change{}
	}
	d.open, d.commit, d.commitTime, d.seq = true, commit, at, 0
	return d.inside(Begin, 'B')
}

// complete reads a Commit message.
func (d *Decoder) complete(r *reader) Change {
	if !d.inTransaction(r) {
		return Change{}
	}
	if flags := r.byte("the flags"); flags != 0 {
		r.fail(1, hintDamaged, "the flags are %#x, not 0", flags)
	}
	if commit := r.lsn("the commit LSN"); commit != d.commit {
		r.fail(2, hintDamaged, "the commit LSN is %s, that of its begin is %s", commit, d.commit)
	}
	end := r.lsn("the end LSN")
	r.uint64("the commit time")
	if end <= d.commit {
		r.fail(10, hintDamaged, "the end LSN is %s, not after the commit LSN %s", end, d.commit)
	}
	r.end()
	if r.bad {
		return Change{}
	}
	c := d.inside(Commit, 'C')
	c.End = end
	d.open, d.end = false, end
	return c
}

// origin reads an Origin message: the transaction was first committed elsewhere. What an
// outbox says is the same wherever it was first said, so only its place is checked.
func (d *Decoder) origin(r *reader) {
	if !d.inTransaction(r) {
		return
	}
	r.lsn("the LSN at the origin")
	r.text("the origin's name")
}

// inside is a change of the open transaction.
func (d *Decoder) inside(k Kind, letter byte) Change {
	return Change{Kind: k, Op: letter, Commit: d.commit, CommitTime: d.commitTime}
}

func (d *Decoder) inTransaction(r *reader) bool {
	if !d.open {
		r.fail(0, hintDamaged, "it is outside any transaction")
	}
	return d.open
}

// next gives the sequence number of an event and counts it. The last number is left unused,
// so that the counter itself can't wrap and give a second event the position of the first.
func (d *Decoder) next(r *reader) uint32 {
	if d.seq == math.MaxUint32 {
		r.fail(0, "split the transaction", "the transaction has more than %d events, and their positions would repeat", uint32(math.MaxUint32))
		return 0
	}
	d.seq++
	return d.seq - 1
}

// postgresTime converts microseconds since 2000-01-01 UTC. Seconds and microseconds are
// taken apart first: moving the whole to 1970 overflows near the ends of the range.
func postgresTime(micros uint64) time.Time {
	const y2k = 946_684_800 // 2000-01-01 UTC in seconds since 1970
	n := int64(micros)
	return time.Unix(n/1e6+y2k, n%1e6*1000).UTC()
}
