package wal

import "fmt"

// Position is the place of one event in the total order of a source. It is a
// function of the write-ahead log alone, so it is the same in every reading.
type Position struct {
	Lineage uint16 // number of the history that Commit belongs to, from 1; 0 is no position
	Commit  LSN    // LSN of the commit record, from Begin
	Seq     uint32 // count of inserts and own messages before it in the transaction, from 0
}

// String prints the position in a fixed width, so that text order is event order.
func (p Position) String() string {
	return fmt.Sprintf("%04d:%016X:%010d", p.Lineage, uint64(p.Commit), p.Seq)
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
// 0 where there is none.
func (ls Lineages) At(commit LSN) uint16 {
	var no uint16
	var from LSN
	for _, l := range ls {
		if l.From <= commit && (no == 0 || l.From >= from) {
			no, from = l.No, l.From
		}
	}
	return no
}
