package checkpoint

import (
	"time"

	"github.com/cdc-relay/cdc-relay/wal"
)

// txn is one transaction with events. Ones that are complete behind an incomplete one have
// been added to it.
type txn struct {
	ticket     uint64 // 0 while the place is free
	end        wal.LSN
	commit     time.Time
	open       int
	openBytes  int64
	events     uint64 // all that were added, those of absorbed transactions too
	prev, next uint32 // where the place is free, next is the next free one
	sealed     bool
}

// txns are the transactions that are not confirmed, in stream order: a linked list inside one
// slice, so that any of them can leave, and found by ticket without a search. Places are used
// again, numbers are not: a ticket that has been settled is never taken for another one.
type txns struct {
	at         []txn
	len        int
	head, tail uint32
	free       uint32 // the first free place, plus one; 0 is none
	number     uint64
}

func (l *txns) last() *txn { return &l.at[l.tail] }

func (l *txns) push(commit time.Time) {
	var i uint32
	if l.free > 0 {
		i = l.free - 1
		l.free = l.at[i].next
	} else {
		i = uint32(len(l.at))
		l.at = append(l.at, txn{})
	}
	l.number++
	l.at[i] = txn{ticket: l.number<<slotBits | uint64(i), commit: commit, prev: l.tail}
	if l.len == 0 {
		l.head = i
	} else {
		l.at[l.tail].next = i
	}
	l.tail = i
	l.len++
}

func (l *txns) find(ticket uint64) (uint32, bool) {
	i := ticket & (1<<slotBits - 1)
	if ticket == 0 || i >= uint64(len(l.at)) || l.at[i].ticket != ticket {
		return 0, false
	}
	return uint32(i), true
}

func (l *txns) remove(i uint32) {
	x := &l.at[i]
	switch {
	case i == l.head:
		l.head = x.next
	case i == l.tail:
		l.tail = x.prev
	default:
		l.at[x.prev].next = x.next
		l.at[x.next].prev = x.prev
	}
	l.len--
	*x = txn{next: l.free}
	l.free = i + 1
}
