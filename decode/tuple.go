package decode

// The kinds of a value in a tuple.
const (
	kindNull      = 'n'
	kindText      = 't'
	kindUnchanged = 'u' // a TOAST value that the UPDATE left alone; it isn't sent
	kindBinary    = 'b'
)

func (d *Decoder) insert(r *reader) Change {
	if !d.inTransaction(r) {
		return Change{}
	}
	rel := d.known(r)
	if rel == nil {
		return Change{}
	}
	if tag := r.byte("the tuple's tag"); tag != 'N' {
		r.fail(r.off-1, hintDamaged, "the tuple's tag is %q, not 'N'", rune(tag))
		return Change{}
	}
	if !d.row(r, rel) {
		return Change{}
	}
	r.end()
	if r.bad {
		return Change{}
	}
	seq := d.next(r)
	c := d.inside(Row, 'I')
	c.Seq, c.Row = seq, &d.tuple
	return c
}

// row reads a tuple into the decoder's own.
func (d *Decoder) row(r *reader, rel *Relation) bool {
	n := columns(r, rel)
	if r.bad {
		return false
	}
	if cap(d.tuple.Values) < n {
		d.tuple.Values = make([]Value, n)
	}
	d.tuple.Rel, d.tuple.Values = rel, d.tuple.Values[:n]
	for i := range d.tuple.Values {
		v := &d.tuple.Values[i]
		switch kind := r.byte("a value's kind"); kind {
		case kindText:
			v.Text, v.Null = r.sized("a value"), false
		case kindNull:
			v.Text, v.Null = nil, true
		default:
			refuseKind(r, kind, rel, i)
		}
		if r.bad {
			return false
		}
	}
	return true
}

// columns reads the number of a tuple's values, which must be that of the relation.
func columns(r *reader, rel *Relation) int {
	at := r.off
	n := int(r.uint16("the number of values"))
	if !r.bad && n != len(rel.Columns) {
		r.fail(at, hintDamaged, "the row has %d values, %s has %d columns", n, rel.qualified(), len(rel.Columns))
	}
	return n
}

func refuseKind(r *reader, kind byte, rel *Relation, i int) {
	at, column := r.off-1, rel.qualified()+"."+rel.Columns[i].Name
	switch kind {
	case kindUnchanged:
		r.fail(at, hintDamaged, "%s is said to be unchanged, which an inserted value can't be", column)
	case kindBinary:
		r.fail(at, hintVersion, "%s is in binary format", column)
	default:
		r.fail(at, hintDamaged, "%s is of the kind %q, which the protocol does not have", column, rune(kind))
	}
}

// update and remove step over what they read, but check it all: where a frame isn't
// what it says, what follows can't be trusted.
func (d *Decoder) update(r *reader) Change {
	if !d.inTransaction(r) {
		return Change{}
	}
	rel := d.known(r)
	if rel == nil {
		return Change{}
	}
	tag := r.byte("the tuple's tag")
	if tag == 'K' || tag == 'O' {
		skipTuple(r, rel)
		tag = r.byte("the new tuple's tag")
	}
	if tag != 'N' {
		r.fail(r.off-1, hintDamaged, "the tuple's tag is %q, not 'K', 'O' or 'N'", rune(tag))
	}
	skipTuple(r, rel)
	return d.inside(Ignored, 'U')
}

func (d *Decoder) remove(r *reader) Change {
	if !d.inTransaction(r) {
		return Change{}
	}
	rel := d.known(r)
	if rel == nil {
		return Change{}
	}
	if tag := r.byte("the tuple's tag"); tag != 'K' && tag != 'O' {
		r.fail(r.off-1, hintDamaged, "the tuple's tag is %q, not 'K' or 'O'", rune(tag))
	}
	skipTuple(r, rel)
	return d.inside(Ignored, 'D')
}

func skipTuple(r *reader, rel *Relation) {
	n := columns(r, rel)
	for i := 0; i < n && !r.bad; i++ {
		switch kind := r.byte("a value's kind"); kind {
		case kindText:
			r.sized("a value")
		case kindNull, kindUnchanged:
		default:
			refuseKind(r, kind, rel, i)
		}
	}
}

func (d *Decoder) truncate(r *reader) Change {
	if !d.inTransaction(r) {
		return Change{}
	}
	at := r.off
	n := r.uint32("the number of relations")
	r.byte("the options")
	if !r.bad && uint64(n)*4 != uint64(r.left()) {
		r.fail(at, hintDamaged, "%d relation ids can't be in the %d bytes that are left", n, r.left())
	}
	for i := uint32(0); i < n && !r.bad; i++ {
		d.known(r)
	}
	return d.inside(Ignored, 'T')
}
