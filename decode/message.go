package decode

import "bytes"

// logical reads a logical decoding message. A transactional one lies in its transaction;
// any other comes at once, between transactions or in the middle of one that it has
// nothing to do with, and even if its own was rolled back.
func (d *Decoder) logical(r *reader) Change {
	flags := r.byte("the flags")
	if flags > 1 {
		r.fail(1, hintDamaged, "the flags are %#x, not 0 or 1", flags)
	}
	lsn := r.lsn("the LSN")
	prefix := r.text("the prefix")
	content := r.sized("the content")
	r.end()
	if flags == 1 {
		d.inTransaction(r)
	}
	if r.bad {
		return Change{}
	}
	m := &d.msg
	m.Transactional, m.LSN, m.Content = flags == 1, lsn, content
	if string(prefix) != m.Prefix { // compares without a copy; one prefix tends to repeat
		m.Prefix = string(prefix)
	}
	m.Own = own(prefix)

	c := Change{Kind: Message, Op: 'M', Msg: m}
	if m.Transactional {
		c = d.inside(Message, 'M')
		c.Msg = m
	}
	if m.Counts() {
		c.Seq = d.next(r)
	}
	return c
}

func own(prefix []byte) bool {
	rest, ok := bytes.CutPrefix(prefix, []byte(OwnPrefix))
	return ok && (len(rest) == 0 || rest[0] == '.')
}
