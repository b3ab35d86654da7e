package lab

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Writers is an application: connections that insert events in transactions of many sizes, some
// rolled back, each for entities of its own, so that ids order the events of an entity as
// commits do. They live through restarts of the server.
type Writers struct {
	t      testing.TB
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// Write starts n writers with a pause of up to gap between their transactions. The seed is logged.
func (l *Lab) Write(n int, gap time.Duration) *Writers {
	l.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &Writers{t: l.t, cancel: cancel}
	seed := rand.Uint64()
	l.t.Logf("writers: seed %d", seed)
	for i := range n {
		w.wg.Go(func() { w.run(ctx, l.URL, i, gap, rand.New(rand.NewPCG(seed, uint64(i)))) })
	}
	l.t.Cleanup(w.Stop)
	return w
}

// Stop ends the writers and waits for them.
func (w *Writers) Stop() {
	w.cancel()
	w.wg.Wait()
}

func (w *Writers) run(ctx context.Context, url string, no int, gap time.Duration, rnd *rand.Rand) {
	for ctx.Err() == nil {
		w.session(ctx, url, no, gap, rnd)
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond): // before it connects again
		}
	}
}

// session writes until the server goes away or the writers stop. A transaction whose commit was
// not answered is in the table or not; the table is what the oracle compares with.
func (w *Writers) session(ctx context.Context, url string, no int, gap time.Duration, rnd *rand.Rand) {
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		return
	}
	defer c.Close(context.WithoutCancel(ctx))
	for ctx.Err() == nil {
		entities := []string{fmt.Sprintf("w%d-%d", no, rnd.IntN(20)), fmt.Sprintf("w%d-%d", no, rnd.IntN(20))}
		tx, err := c.Begin(ctx)
		if err != nil {
			return
		}
		if _, err := tx.Exec(ctx, InsertSQL, 1+rnd.IntN(20), entities); err != nil {
			return
		}
		if rnd.IntN(10) == 0 {
			err = tx.Rollback(ctx)
		} else {
			// Not cut off by the end of the writers: what is committed is then committed before Stop
			// returns, and so before the test looks at the table.
			err = tx.Commit(context.WithoutCancel(ctx))
		}
		if err != nil {
			return
		}
		if gap > 0 {
			select {
			case <-ctx.Done():
			case <-time.After(time.Duration(rnd.Int64N(int64(gap)))):
			}
		}
	}
}
