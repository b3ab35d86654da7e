package wal

import (
	"cmp"
	"fmt"
	"strconv"
)

// Position is the place of one event in the total order of a source. It is a
// function of the write-ahead log alone, so it is the same in every reading.
type Position struct {
	Lineage uint16 // number of the history that Commit belongs to, from 1; 0 is no position
	Commit  LSN    // LSN of the commit record, from Begin
	Seq     uint32 // count of inserts and own messages before it in the transaction, from 0
}

// String prints the position so that text order is event order: the width is fixed as long as
// Lineage is below 10,000, which is as many failovers.
func (p Position) String() string {
	return fmt.Sprintf("%04d:%016X:%010d", p.Lineage, uint64(p.Commit), p.Seq)
}

// Compare returns -1, 0 or 1 as p lies before, at or behind q.
func (p Position) Compare(q Position) int {
	return cmp.Or(cmp.Compare(p.Lineage, q.Lineage), cmp.Compare(p.Commit, q.Commit), cmp.Compare(p.Seq, q.Seq))
}

// ParsePosition reads what String prints, and nothing else.
func ParsePosition(s string) (Position, error) {
	// The last two fields have a fixed width, so the first is what is left.
	const commitLen, seqLen = 16, 10
	tail := len(s) - len(":") - commitLen - len(":") - seqLen
	if tail < 0 || s[tail] != ':' || s[tail+1+commitLen] != ':' {
		return Position{}, positionError(s)
	}
	lineage, errL := strconv.ParseUint(s[:tail], 10, 16)
	commit, errC := strconv.ParseUint(s[tail+1:tail+1+commitLen], 16, 64)
	seq, errS := strconv.ParseUint(s[tail+2+commitLen:], 10, 32)
	p := Position{Lineage: uint16(lineage), Commit: LSN(commit), Seq: uint32(seq)}
	// Printing it again refuses every second spelling: lower case, signs, other widths.
	if errL != nil || errC != nil || errS != nil || p.String() != s {
		return Position{}, positionError(s)
	}
	return p, nil
}

func positionError(s string) error {
	return fmt.Errorf("parse position %q: want lineage, commit LSN and sequence like 0001:00000016B374D848:0000000003", s)
}

// Lineage says that from From on, commit LSNs belong to the history No. LSNs are
// reused after a failover, a restore or an upgrade; lineages tell them apart.
type Lineage struct {
	No   uint16
	From LSN
}

// Lineages are the histories of one server, in any order.
type Lineages []Lineage

// At returns the number of the lineage with the greatest From at or below commit, and
// 0 where there is none. Of two with the same From the one with the greater number counts:
// it was begun later.
func (ls Lineages) At(commit LSN) uint16 {
	var best Lineage
	for _, l := range ls {
		if l.From > commit || l.No == 0 {
			continue
		}
		if best.No == 0 || l.From > best.From || l.From == best.From && l.No > best.No {
			best = l
		}
	}
	return best.No
}
