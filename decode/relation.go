package decode

// columnBytes is the least that a column takes in a Relation message: flags, an empty
// name's NUL, type OID and type modifier.
const columnBytes = 1 + 1 + 4 + 4

// relation reads the shape that the following rows of a table have. The server sends it
// before the first row and again after each change of the table, also inside a
// transaction. It may come anywhere: it is no event, and has no position.
func (d *Decoder) relation(r *reader) {
	rel := &Relation{
		ID:     r.uint32("the relation id"),
		Schema: string(r.text("the schema")),
		Name:   string(r.text("the table's name")),
	}
	r.byte("the replica identity")
	at := r.off
	n := int(r.uint16("the number of columns"))
	if r.bad {
		return
	}
	if n > r.left()/columnBytes {
		r.fail(at, hintDamaged, "%d columns can't be in the %d bytes that are left", n, r.left())
		return
	}
	rel.Columns = make([]Column, n)
	for i := range rel.Columns {
		readColumn(r, &rel.Columns[i])
		if r.bad {
			return
		}
	}
	r.end()
	if r.bad {
		return
	}
	// Only an outbox stays one. What was foreign may have become a partition of the outbox by now
	// (ATTACH PARTITION announces the relation anew), so it is looked up again.
	if old := d.relations[rel.ID]; old != nil && old.Schema == rel.Schema && old.Name == rel.Name && old.Class == Outbox {
		rel.Class = Outbox
	}
	d.relations[rel.ID] = rel
}

func readColumn(r *reader, c *Column) {
	const partOfKey = 1
	c.Key = r.byte("a column's flags")&partOfKey != 0
	c.Name = string(r.text("a column's name"))
	c.Type = r.uint32("a column's type")
	r.uint32("a column's type modifier")
}

// skipType reads a Type message: the name of a column's type that isn't built in. Values
// come as text, so what the type is doesn't matter.
func skipType(r *reader) {
	r.uint32("the type's OID")
	r.text("the type's schema")
	r.text("the type's name")
}

// known reads a relation id and looks it up.
func (d *Decoder) known(r *reader) *Relation {
	at := r.off
	id := r.uint32("the relation id")
	if r.bad {
		return nil
	}
	rel := d.relations[id]
	if rel == nil {
		r.fail(at, hintDamaged, "no relation %d was announced in this stream", id)
	}
	return rel
}

// qualified names the relation in messages.
func (rel *Relation) qualified() string {
	if rel.Schema == "" {
		return "pg_catalog." + rel.Name
	}
	return rel.Schema + "." + rel.Name
}
