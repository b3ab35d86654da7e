package crash

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// deed is a kind of work that the application does.
type deed string

const (
	anInsert        deed = "small insert"
	aSavepoint      deed = "savepoint rolled back"
	aRollback       deed = "rollback"
	aCopy           deed = "COPY"
	aLargeInsert    deed = "large insert"
	aDelete         deed = "delete"
	anUpdate        deed = "update"
	aTruncate       deed = "truncate"
	aNewColumn      deed = "column added"
	aColumnLess     deed = "column dropped"
	anOtherInsert   deed = "insert elsewhere"
	anOtherUpdate   deed = "update elsewhere"
	anOtherDelete   deed = "delete elsewhere"
	anOtherTruncate deed = "truncate elsewhere"
)

// Each run has done the first of these, and one of allDeedsFrom or longer all of both.
var (
	deedsAtOnce = []deed{anInsert, aSavepoint, aRollback, aCopy}
	deedsLater  = []deed{
		aLargeInsert, aDelete, anUpdate, aTruncate, aNewColumn, aColumnLess,
		anOtherInsert, anOtherUpdate, anOtherDelete, anOtherTruncate,
	}
)

// allDeedsFrom is enough for two packs of chores, of some 25 seconds each.
const allDeedsFrom = 2 * time.Minute

// deeds counts what was done, and keeps the first error that is no lost connection.
type deeds struct {
	mu     sync.Mutex
	counts map[deed]int
	first  error
}

func (d *deeds) count(what deed) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.counts == nil {
		d.counts = map[deed]int{}
	}
	d.counts[what]++
}

// done counts what was done without an error, which it hands on.
func (d *deeds) done(what deed, err error) error {
	if err == nil {
		d.count(what)
	}
	return err
}

func (d *deeds) fail(who string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.first == nil {
		d.first = fmt.Errorf("writer %s: %w", who, err)
	}
}

// judge says what is wrong with a run of that length, and how often each was done.
func (d *deeds) judge(length time.Duration) (wrong []error, text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.first != nil {
		wrong = append(wrong, fmt.Errorf("an error that no lost connection explains: %w", d.first))
	}
	var b strings.Builder
	for i, some := range [][]deed{deedsAtOnce, deedsLater} {
		for _, what := range some {
			n := d.counts[what]
			fmt.Fprintf(&b, "%s %d, ", what, n)
			if n == 0 && (i == 0 || length >= allDeedsFrom) {
				wrong = append(wrong, fmt.Errorf("the application did no %q in %s: the run proves nothing about it", what, length))
			}
		}
	}
	return wrong, strings.TrimSuffix(b.String(), ", ")
}

// isLost says that a connection, or the attempt at one, ended because its server did or was ending:
// the server says so, or the connection is gone.
func isLost(c *pgx.Conn, err error) bool { return explains(c == nil || c.IsClosed(), err) }

func explains(gone bool, err error) bool {
	if said, ok := errors.AsType[*pgconn.PgError](err); ok {
		// Shutdowns, crashes and starts (57P01 to 57P03), and what it has to say of connections (08).
		return strings.HasPrefix(said.Code, "57P") || strings.HasPrefix(said.Code, "08")
	}
	return gone
}

// chores are what is done to the outbox, in packs that have each kind, so that each comes soon.
type chores struct {
	pack  []deed
	added bool // the column is there
}

var choreSQL = map[deed]string{
	aDelete:     "delete from outbox_events where id % 2 = 0",
	anUpdate:    "update outbox_events set status = 'published', published_at = now() where id % 5 = 0",
	aTruncate:   "truncate outbox_events",
	aNewColumn:  "alter table outbox_events add column if not exists note text default 'none'",
	aColumnLess: "alter table outbox_events drop column if exists note",
}

// next is what to do now: the same until it is done. A column is added before it is dropped.
func (c *chores) next(rnd *rand.Rand) deed {
	if len(c.pack) == 0 {
		c.pack = []deed{aDelete, aDelete, anUpdate, aTruncate, aNewColumn, aNewColumn}
		rnd.Shuffle(len(c.pack), func(i, j int) { c.pack[i], c.pack[j] = c.pack[j], c.pack[i] })
	}
	if c.pack[0] == aNewColumn && c.added {
		return aColumnLess
	}
	return c.pack[0]
}

func (c *chores) done() {
	if c.pack[0] == aNewColumn {
		c.added = !c.added
	}
	c.pack = c.pack[1:]
}
