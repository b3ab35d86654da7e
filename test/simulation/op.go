package simulation

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// op is one operation at the border between the relay and its surroundings. It is registered by
// whoever wants it done, and done by the scheduler, which alone changes the world.
type op struct {
	key  string // what the trace shows; ops are sorted by it, so that their order depends on no goroutine
	tie  int    // the order of ops whose keys are equal
	life *life
	// faults are what may happen in place of success.
	faults []string
	// prompt: it is done before time passes. Of two that time out together, chance would decide which
	// comes again first.
	prompt bool
	// ready says whether it can be done now; nil: always.
	ready func() bool
	// do carries the operation out. fault is empty, or one of faults.
	do func(fault string)
	// dead is called instead when the life ends; nil: nobody waits.
	dead func()
	// stale says whether nobody waits for the answer any more; nil: somebody does.
	stale func() bool
	// landed is what may happen all the same when whoever asked is gone; nil: nothing.
	landed func()
}

// board holds the operations that wait to be done.
type board struct {
	mu  sync.Mutex
	ops []*op
	n   int
}

// add registers an op, unless its life is over.
func (b *board) add(o *op) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if o.life.dead.Load() {
		return false
	}
	if o.tie == 0 {
		b.n++
		o.tie = b.n
	}
	b.ops = append(b.ops, o)
	return true
}

// remove takes an op off the board, and says whether it was there.
func (b *board) remove(o *op) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.ops, o)
	if i >= 0 {
		b.ops = slices.Delete(b.ops, i, i+1)
	}
	return i >= 0
}

// of takes all ops off the board that a life registered.
func (b *board) of(l *life) (out []*op) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ops = slices.DeleteFunc(b.ops, func(o *op) bool {
		if o.life == l {
			out = append(out, o)
		}
		return o.life == l
	})
	slices.SortFunc(out, compareOps)
	return out
}

// open returns the ops that can be done now, in an order that depends on nothing but the world.
func (b *board) open() (out []*op) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, o := range b.ops {
		if o.ready == nil || o.ready() {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, compareOps)
	return out
}

// first returns a prompt op, nil where there is none.
func (b *board) first() *op {
	for _, o := range b.open() {
		if o.prompt {
			return o
		}
	}
	return nil
}

// dropStale forgets what nobody waits for any more.
func (b *board) dropStale() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ops = slices.DeleteFunc(b.ops, func(o *op) bool { return o.stale != nil && o.stale() })
}

func compareOps(a, b *op) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.tie, b.tie)) }

// errDead is what a relay that has crashed gets for anything that it still asks for.
var errDead = errors.New("the process is gone")

// call has the scheduler do something for a goroutine of the relay, which waits for it.
func call[T any](ctx context.Context, l *life, key string, faults []string, do func(fault string) (T, error)) (T, error) {
	return ask(ctx, l, &op{key: key, faults: faults}, do)
}

// ask is call with an op that says more.
func ask[T any](ctx context.Context, l *life, o *op, do func(fault string) (T, error)) (T, error) {
	type answer struct {
		v   T
		err error
	}
	if ctx.Err() != nil { // nothing is sent any more
		var none T
		return none, context.Cause(ctx)
	}
	done := make(chan answer, 1)
	o.life = l
	o.do = func(fault string) {
		v, err := do(fault)
		if err != nil { // only Postgres answers with errors
			l.troubled.Store(true)
		}
		done <- answer{v, err}
	}
	o.dead = func() { done <- answer{err: errDead} }
	if !l.world.board.add(o) {
		var none T
		return none, errDead
	}
	select {
	case a := <-done:
		return a.v, a.err
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			l.troubled.Store(true)
		}
		if !l.world.board.remove(o) {
			a := <-done
			return a.v, a.err
		}
		if o.landed != nil { // what was asked for is on its way
			l.world.board.add(&op{key: "late " + o.key, life: l, faults: []string{faultCut}, do: func(fault string) {
				if fault == "" {
					o.landed()
				}
			}, landed: o.landed})
		}
		var none T
		return none, context.Cause(ctx)
	}
}

// sleep lets fake time pass. All goroutines of the bubble go on meanwhile, up to their next operation.
func sleep(d time.Duration) { <-time.After(d) }
