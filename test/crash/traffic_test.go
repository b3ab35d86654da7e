package crash

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// keepSQL keeps a copy of each event, so that the outbox can be cleaned up as applications do and the
// oracle still knows what was in it. The copy commits with the event, or not at all.
const keepSQL = `
	create table kept as select id, entity_id, event_type, payload, created_at from outbox_events;
	create index on kept (id);
	create function keep() returns trigger language plpgsql as $keep$ begin
			insert into kept select id, entity_id, event_type, payload, created_at from added;
			return null;
		end $keep$;
	create trigger keep after insert on outbox_events referencing new table as added
		for each statement execute function keep();
	create table busy (id bigserial primary key, n int not null default 0, pad text not null)`

// smallWriters are the connections that write transactions of a few events.
const smallWriters = 4

// traffic is an application at work. Each entity belongs to one connection, which has one transaction
// at a time and never starts one before the last has ended or its server has died. So the ids of an
// entity's events are drawn in the order in which their transactions commit, and the oracle may take
// the id as their order.
type traffic struct {
	t         *testing.T
	url       string
	committed atomic.Int64 // events; not those whose commit wasn't answered
	deeds     deeds
	small     *budget
	bulk      *budget
	cancel    context.CancelFunc
	wg        sync.WaitGroup
	// turn is held for reading during each transaction, and for writing while there is a pause.
	turn sync.RWMutex
	// What the writers of large transactions and the cleaner have done, each for itself.
	bulks int
	chore chores
}

// begin starts the writers. rate is their events per second, on average, of all together.
func begin(t *testing.T, url string, seed uint64, rate float64) *traffic {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &traffic{t: t, url: url, small: newBudget(rate * 0.6), bulk: newBudget(rate * 0.4), cancel: cancel}
	works := map[string]work{"bulk": w.writeBulk, "busy": w.keepBusy, "cleaner": w.cleanUp}
	for i := range smallWriters {
		works[fmt.Sprint("w", i)] = w.writeSmall
	}
	for name, do := range works {
		rnd := newRand(seed, nameSeed(name))
		w.wg.Go(func() { w.connected(ctx, writer{name, rnd}, do) })
	}
	t.Cleanup(w.stop)
	return w
}

// nameSeed makes a number of a name.
func nameSeed(name string) uint64 {
	n := uint64(0)
	for _, c := range []byte(name) {
		n = n*31 + uint64(c)
	}
	return n
}

// stop ends the writers when their transactions have ended, and waits for them.
func (w *traffic) stop() {
	w.pause()
	w.cancel()
	w.resume()
	w.wg.Wait()
}

// pause returns when no transaction is open and none begins until resume.
func (w *traffic) pause()  { w.turn.Lock() }
func (w *traffic) resume() { w.turn.Unlock() }

// writer is one connection of the application.
type writer struct {
	name string
	rnd  *rand.Rand
}

// work does one transaction, or piece of work.
type work func(context.Context, *pgx.Conn, writer) error

// connected does work after work, on a new connection after each that was lost. An error that no lost
// connection explains is kept.
func (w *traffic) connected(ctx context.Context, me writer, do work) {
	for ctx.Err() == nil {
		c, err := pgx.Connect(ctx, w.url)
		for err == nil && ctx.Err() == nil {
			w.turn.RLock()
			err = do(ctx, c, me)
			w.turn.RUnlock()
		}
		if ctx.Err() == nil && !isLost(c, err) {
			w.deeds.fail(me.name, err)
		}
		if c != nil {
			_ = c.Close(context.WithoutCancel(ctx)) // it may be broken already
		}
		wait(ctx, 50*time.Millisecond)
	}
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// insertSQL inserts the payloads $2 of the entities $1, in their order.
const insertSQL = `insert into outbox_events (entity_id, event_type, payload)
	select e, case when n % 3 = 0 then 'order.paid' else 'order.created' end, p::jsonb
	from unnest($1::text[], $2::text[]) with ordinality as u(e, p, n) order by n`

// writeSmall is a transaction of up to twenty events: some with savepoints, some rolled back, some
// open for a while as the others go on.
func (w *traffic) writeSmall(ctx context.Context, c *pgx.Conn, me writer) error {
	n := 1 + me.rnd.IntN(20)
	rollback, savepoint, linger := me.rnd.IntN(10) == 0, me.rnd.IntN(6) == 0, me.rnd.IntN(40) == 0
	entities, payloads := me.events(n), me.payloads(n)
	if wait(ctx, w.small.take(n)); ctx.Err() != nil {
		return ctx.Err()
	}
	tx, err := c.Begin(ctx)
	if err != nil {
		return err
	}
	half := n / 2
	if _, err := tx.Exec(ctx, insertSQL, entities[:half], payloads[:half]); err != nil {
		return err
	}
	if savepoint {
		if err := undone(ctx, tx, entities, payloads); err != nil {
			return err
		}
		w.deeds.count(aSavepoint)
	}
	if linger {
		wait(ctx, time.Duration(me.rnd.Int64N(int64(time.Second))))
	}
	if _, err := tx.Exec(ctx, insertSQL, entities[half:], payloads[half:]); err != nil {
		return err
	}
	return w.end(ctx, tx, n, rollback, anInsert)
}

// undone inserts events behind a savepoint that is rolled back: they were never there.
func undone(ctx context.Context, tx pgx.Tx, entities, payloads []string) error {
	inner, err := tx.Begin(ctx)
	if err != nil {
		return err
	}
	if _, err := inner.Exec(ctx, insertSQL, entities, payloads); err != nil {
		return err
	}
	return inner.Rollback(ctx)
}

// end ends a transaction of n events, and counts what it did.
func (w *traffic) end(ctx context.Context, tx pgx.Tx, n int, rollback bool, what deed) error {
	if rollback {
		return w.deeds.done(aRollback, tx.Rollback(ctx))
	}
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	w.committed.Add(int64(n))
	w.deeds.count(what)
	return nil
}

// events are entities of the writer's own.
func (me writer) events(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s-%d", me.name, me.rnd.IntN(20))
	}
	return all
}

// payloads are small, and a few large.
func (me writer) payloads(n int) []string {
	all := make([]string, n)
	for i := range all {
		size := me.rnd.IntN(200)
		if me.rnd.IntN(500) == 0 {
			size = 10_000 + me.rnd.IntN(250_000)
		}
		all[i] = me.payload(i, size)
	}
	return all
}

// payload is a JSON object of about that many bytes, which don't compress well.
func (me writer) payload(i, size int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"n": %d, "pad": "`, i)
	for b.Len() < size {
		fmt.Fprintf(&b, "%016x", me.rnd.Uint64())
	}
	b.WriteString(`"}`)
	return b.String()
}

// The sizes of large transactions.
const bulkMin, bulkMax = 1000, 50_000

// writeBulk is one large transaction, by INSERT or by COPY, whose rows share one LSN. The first of each
// is the smallest and is committed, so that a short run has both.
func (w *traffic) writeBulk(ctx context.Context, c *pgx.Conn, me writer) error {
	n := int(bulkMin * math.Pow(bulkMax/bulkMin, me.rnd.Float64())) // small ones as often as large ones
	copied, rollback, size := me.rnd.IntN(2) == 0, me.rnd.IntN(8) == 0, me.rnd.IntN(100)
	if w.bulks < 2 {
		n, copied, rollback = bulkMin, w.bulks == 0, false
	}
	what := aLargeInsert
	if copied {
		what = aCopy
	}
	tx, err := c.Begin(ctx)
	if err != nil {
		return err
	}
	if copied {
		_, err = tx.CopyFrom(ctx, pgx.Identifier{"outbox_events"}, []string{"entity_id", "event_type", "payload"},
			pgx.CopyFromSlice(n, func(i int) ([]any, error) {
				return []any{fmt.Sprintf("%s-%d", me.name, i%50), "order.copied", me.payload(i, size)}, nil
			}))
	} else {
		_, err = tx.Exec(ctx, `insert into outbox_events (entity_id, event_type, payload)
			select $2 || '-' || i % 50, 'order.imported', jsonb_build_object('n', i, 'pad', repeat(md5(i::text), $3::int / 32))
			from generate_series(1, $1::int) i order by i`, n, me.name, size)
	}
	if err != nil {
		return err
	}
	if err := w.end(ctx, tx, n, rollback, what); err != nil {
		return err
	}
	w.bulks++
	// Not within a turn: it may take minutes.
	w.turn.RUnlock()
	wait(ctx, w.bulk.take(n))
	w.turn.RLock()
	return nil
}

// keepBusy works on a table that is no outbox.
func (w *traffic) keepBusy(ctx context.Context, c *pgx.Conn, me writer) error {
	sql, what := "insert into busy (pad) select repeat('x', 500) from generate_series(1, 200)", anOtherInsert
	switch me.rnd.IntN(12) {
	case 0:
		sql, what = "truncate busy", anOtherTruncate
	case 1, 2, 3:
		sql, what = "update busy set n = n + 1 where id % 3 = 0", anOtherUpdate
	case 4:
		sql, what = "delete from busy where id % 2 = 0", anOtherDelete
	}
	wait(ctx, time.Duration(me.rnd.Int64N(int64(time.Second))))
	_, err := c.Exec(ctx, sql)
	return w.deeds.done(what, err)
}

// cleanUp does to published rows, and to others, what applications do to their outbox, and now and then
// changes the table, so that the relay is told of its columns anew.
func (w *traffic) cleanUp(ctx context.Context, c *pgx.Conn, me writer) error {
	pause := time.Second + time.Duration(me.rnd.Int64N(int64(5*time.Second)))
	w.turn.RUnlock()
	wait(ctx, pause)
	w.turn.RLock()
	what := w.chore.next(me.rnd)
	_, err := c.Exec(ctx, choreSQL[what])
	if err == nil {
		w.chore.done()
	}
	return w.deeds.done(what, err)
}

// budget spreads events over time, so that the total is bounded by the rate.
type budget struct {
	mu   sync.Mutex
	per  time.Duration // for each event
	next time.Time
}

func newBudget(perSecond float64) *budget {
	return &budget{per: time.Duration(float64(time.Second) / perSecond), next: time.Now()}
}

// take is how long to wait for n events. A time without events, such as an outage, isn't made up for.
func (b *budget) take(n int) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if b.next.Before(now) {
		b.next = now
	}
	b.next = b.next.Add(time.Duration(n) * b.per)
	return b.next.Sub(now)
}
