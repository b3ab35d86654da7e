package simulation

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cdc-relay/cdc-relay/checkpoint"
	"github.com/cdc-relay/cdc-relay/wal"
)

const (
	slotName    = "cdc_relay_outbox"
	publication = "outbox"
	database    = "app"
	systemID    = "7000000000000000001"

	firstLSN   = 0x1000000
	rowSize    = 112 // of WAL
	commitSize = 48
)

// postgres is the server: its log of transactions, the slot, and the relay's own tables.
type postgres struct {
	w     *world
	cur   wal.LSN // end of the WAL, all of it flushed
	txns  []*txn  // that are committed and published, in the order of their commits
	ids   int
	form  int  // of the outbox, an index into outboxes
	empty bool // transactions without published rows are sent, as Postgres 14 does

	down     bool
	source   *source // the walsender, nil while nobody streams
	slot     *slot
	row      *checkpoint.Row
	pinned   *pinned
	orphans  []orphan  // writes whose client gave up
	statuses []wal.LSN // on their way to the walsender
}

type slot struct {
	confirmed wal.LSN
	saved     wal.LSN   // what a restart comes back to
	held      time.Time // until when a connection that is gone still holds it
	stolen    bool      // another relay streams from it
}

// orphan is an UPDATE of the stored position that may still land.
type orphan struct {
	owner  checkpoint.Owner
	stored wal.LSN
}

// txn is a committed transaction.
type txn struct {
	commit, end wal.LSN
	at          time.Time
	xid         int
	rows        []row
	events      []*event
}

type row struct {
	table  *table
	event  *event // nil where it isn't the outbox
	values map[string]string
}

// spec is a transaction that the application is about to commit.
type spec struct {
	// aborted leaves only a gap; foreign has no row of the outbox; hidden has no published row.
	aborted, foreign, hidden bool
	// adjacent: its rows were written before the previous commit, so that its commit record begins
	// right where that one ends.
	adjacent bool
	// alter changes the outbox first.
	alter bool
	rows  []rowSpec
}

type rowSpec struct {
	entity int // -1: NULL; an index into entities
	size   int
	audit  bool // a row of the other table
}

var entities = []string{"order:A-1", "order:A-2", "customer:42", "", "ключ"}

// commit appends a transaction to the log.
func (pg *postgres) commit(s spec) *txn {
	if s.alter {
		pg.form = (pg.form + 1) % len(outboxes)
		pg.cur += 700
	}
	if !s.adjacent {
		pg.cur += wal.LSN(rowSize*len(s.rows) + 8*(len(pg.txns)%3))
	}
	if s.aborted {
		pg.cur += commitSize
		return nil
	}
	pg.ids++
	t := &txn{commit: pg.cur, end: pg.cur + commitSize, at: time.Now(), xid: 700 + pg.ids}
	pg.cur = t.end
	if s.hidden && !pg.empty {
		return nil
	}
	for seq, r := range s.rows {
		switch {
		case s.hidden:
		case s.foreign || r.audit:
			t.rows = append(t.rows, row{table: audit, values: map[string]string{"id": fmt.Sprint(pg.ids*100 + seq), "what": "seen"}})
		default:
			pg.add(t, seq, r)
		}
	}
	pg.txns = append(pg.txns, t)
	return t
}

func (pg *postgres) add(t *txn, seq int, r rowSpec) {
	id := pg.ids*100 + seq
	payload := fmt.Sprintf(`{"n": %d, "pad": "%0*d"}`, id, r.size, 0)
	var entity *string
	if r.entity >= 0 {
		entity = &entities[r.entity]
	}
	// Rows are made before they are committed, and not in the order of their commits.
	made := t.at.Add(-time.Duration(id*7919%5000) * time.Millisecond)
	e := newEvent(t, seq, id, entity, "order.created", payload, made)
	t.rows = append(t.rows, row{table: outboxes[pg.form], event: e, values: e.row(payload)})
	t.events = append(t.events, e)
	pg.w.rules.expect(e)
}

// crash is a restart: what was not written to disk about the slot is forgotten, all
// connections end, and for a while nobody is let in.
func (pg *postgres) crash() {
	pg.down = true
	if pg.slot != nil {
		pg.slot.confirmed = pg.slot.saved
		pg.slot.held = time.Time{}
		pg.slot.stolen = false
	}
	pg.statuses = nil
	pg.detach()
}

// detach ends the walsender.
func (pg *postgres) detach() {
	pg.source, pg.statuses = nil, nil
}

// confirm is what a status does. Postgres believes it.
func (pg *postgres) confirm(l wal.LSN) {
	if pg.slot != nil {
		pg.slot.confirmed = max(pg.slot.confirmed, l)
	}
}

// save is the UPDATE of the stored position.
func (pg *postgres) save(owner checkpoint.Owner, l wal.LSN) error {
	if pg.row == nil || pg.row.Owner != owner || pg.row.Stored > l {
		return checkpoint.ErrOwnerLost
	}
	pg.row.Stored = l
	return nil
}

// first returns the index of the first transaction that a start at l sends: those whose commit
// record doesn't lie before l, nor before what the slot has confirmed.
func (pg *postgres) first(l wal.LSN) int {
	from := max(l, pg.slot.confirmed)
	i := 0
	for i < len(pg.txns) && pg.txns[i].commit < from {
		i++
	}
	return i
}

func (pg *postgres) server() checkpoint.Server {
	return checkpoint.Server{SystemID: systemID, Timeline: 1, Flushed: pg.cur, Database: database}
}

func (pg *postgres) slotRow() *checkpoint.Slot {
	if pg.slot == nil {
		return nil
	}
	return &checkpoint.Slot{Name: slotName, Plugin: "pgoutput", Database: database, Confirmed: pg.slot.confirmed, WALStatus: "reserved"}
}

// plan draws what the application does.
func plan(rng *rand.Rand, n int) []spec {
	specs := make([]spec, n)
	for i := range specs {
		s := &specs[i]
		rows := 1 + rng.IntN(4)
		switch rng.IntN(12) {
		case 0:
			s.aborted = true
		case 1:
			s.foreign = true
		case 2:
			s.hidden = true
		case 3:
			rows = 12 + rng.IntN(24) // more than may be in flight
		case 4:
			rows = 0
		}
		s.adjacent = rng.IntN(3) == 0
		s.alter = rng.IntN(10) == 0
		for range rows {
			r := rowSpec{entity: rng.IntN(len(entities)+1) - 1, size: 1 + rng.IntN(300), audit: rng.IntN(8) == 0}
			if rng.IntN(40) == 0 {
				r.size = 3000 // more than may be in flight
			}
			s.rows = append(s.rows, r)
		}
	}
	return specs
}
