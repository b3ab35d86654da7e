package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"
)

const (
	connections = 6
	// A transaction has one to batchMax events, of different orders.
	batchMax = 5
	// Of a hundred transactions, rolledBack are rolled back and then made again.
	rolledBack = 5
	// Orders under way at the same time: their steps come from all connections in turn.
	underWay = 200
)

// service is the application: it takes orders through their life, and writes each step and
// its event in one transaction.
type service struct {
	url  string
	rate float64 // events per second; 0 is no limit

	mu      sync.Mutex
	budget  int    // events still to write
	queue   []step // the next steps of the orders under way
	orders  int
	next    time.Time // when the next transaction is due
	commits []commit

	events     atomic.Int64 // committed
	undone     atomic.Int64 // rolled back
	first, end time.Time
}

// step is one change of an order. An order has at most one step in the queue or in the hands
// of a connection, so its steps are committed one after the other.
type step struct {
	order   int
	version int // of the order after it, from 1
}

// commit is when an event was committed, for the latency.
type commit struct {
	id int64
	at time.Time
}

// changes is how often an order is changed between its creation and its payment.
func (s step) changes() int { return s.order % 4 }

// status after the step.
func (s step) status() string {
	switch n := s.version - s.changes(); {
	case s.version == 1:
		return "created"
	case n <= 1:
		return "changed"
	case n == 2:
		return "paid"
	}
	return "shipped"
}

func (s step) last() bool { return s.status() == "shipped" }

func (s step) id() string { return fmt.Sprintf("order-%d", s.order) }

// run writes all events, and returns when they are committed.
func (s *service) run(ctx context.Context) error {
	s.first = time.Now()
	s.next = s.first
	all, ctx := errgroup.WithContext(ctx)
	for range connections {
		all.Go(func() error { return s.work(ctx) })
	}
	err := all.Wait()
	s.end = time.Now()
	if err != nil {
		return fmt.Errorf("order service: %w", err)
	}
	return nil
}

// work is one connection.
func (s *service) work(ctx context.Context) (err error) {
	conn, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for {
		steps, due := s.take(1 + rand.IntN(batchMax))
		if len(steps) == 0 {
			return nil
		}
		if err := wait(ctx, due); err != nil {
			return err
		}
		if rand.IntN(100) < rolledBack {
			if _, err := transact(ctx, conn, steps, "ROLLBACK"); err != nil {
				return err
			}
			s.undone.Add(int64(len(steps)))
		}
		ids, err := transact(ctx, conn, steps, "COMMIT")
		if err != nil {
			return err
		}
		s.committed(steps, ids)
	}
}

// take hands out up to n steps of different orders, and when they are due. It returns none
// when all events are written or in somebody's hands.
func (s *service) take(n int) ([]step, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var steps []step
	for range min(n, s.budget) {
		if len(s.queue) < underWay {
			s.orders++
			steps = append(steps, step{order: s.orders, version: 1})
			continue
		}
		steps = append(steps, s.queue[0])
		s.queue = s.queue[1:]
	}
	s.budget -= len(steps)
	due := s.next
	if s.rate > 0 {
		s.next = s.next.Add(time.Duration(float64(len(steps)) / s.rate * float64(time.Second)))
	}
	return steps, due
}

func (s *service) committed(steps []step, ids []int64) {
	now := time.Now()
	s.mu.Lock()
	for i, st := range steps {
		s.commits = append(s.commits, commit{id: ids[i], at: now})
		if !st.last() {
			s.queue = append(s.queue, step{order: st.order, version: st.version + 1})
		}
	}
	s.mu.Unlock()
	s.events.Add(int64(len(steps)))
}

// wait returns at the time due, or with ctx's error.
func wait(ctx context.Context, due time.Time) error {
	d := time.Until(due)
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

const (
	createOrder = `INSERT INTO orders (id, status, version, total) VALUES ($1, $2, $3, $4)`
	changeOrder = `UPDATE orders SET status = $2, version = version + 1, total = total + $4 WHERE id = $1 AND version + 1 = $3`
	insertEvent = `INSERT INTO outbox_events (entity_id, event_type, payload) VALUES ($1, $2, $3) RETURNING id`
)

// payload is what an event tells.
type payload struct {
	Order   string `json:"order"`
	Version int    `json:"version"`
	Status  string `json:"status"`
	Amount  int    `json:"amount"`
	Note    string `json:"note"`
}

// transact writes the steps and their events in one transaction, in one round trip, and
// returns the events' ids.
func transact(ctx context.Context, conn *pgx.Conn, steps []step, end string) ([]int64, error) {
	b := &pgx.Batch{}
	b.Queue("BEGIN")
	ids := make([]int64, len(steps))
	for i, st := range steps {
		amount := 1 + rand.IntN(500)
		change := changeOrder
		if st.version == 1 {
			change = createOrder
		}
		b.Queue(change, st.id(), st.status(), st.version, amount).Exec(func(tag pgconn.CommandTag) error {
			if tag.RowsAffected() != 1 {
				return fmt.Errorf("%s is not at version %d", st.id(), st.version-1)
			}
			return nil
		})
		body, err := json.Marshal(payload{st.id(), st.version, st.status(), amount, "«" + st.status() + "» by the demo's order service"})
		if err != nil {
			return nil, err
		}
		b.Queue(insertEvent, st.id(), "order."+st.status(), string(body)).QueryRow(func(row pgx.Row) error { return row.Scan(&ids[i]) })
	}
	b.Queue(end)
	if err := conn.SendBatch(ctx, b).Close(); err != nil {
		return nil, err
	}
	return ids, nil
}
