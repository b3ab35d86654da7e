package relay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/cdc-relay/cdc-relay/wal"
)

// errHalted ends a session that was asked to stop while an event held everything back.
var errHalted = errors.New("stopped while halted")

// gate holds everything back while an event can't be published under the policy halt. Several
// events may halt at once, one a lane; the gate is open when none does.
type gate struct {
	exit bool // give up instead of waiting
	log  zerolog.Logger
	// fatal ends the relay; called once, with the first halt, where exit is set.
	fatal func(error)

	isShut atomic.Bool // the cheap question, of each event

	mu     sync.Mutex
	halted map[wal.Position]error
	opened chan struct{} // closed when the gate opens; nil while it is open
}

func newGate(exit bool, log zerolog.Logger, fatal func(error)) *gate {
	return &gate{exit: exit, log: log, fatal: fatal, halted: map[wal.Position]error{}}
}

// shut records that the event at p can't be published.
func (g *gate) shut(p wal.Position, cause error) {
	g.mu.Lock()
	if g.opened == nil {
		g.opened = make(chan struct{})
		g.isShut.Store(true)
	}
	g.halted[p] = cause
	g.mu.Unlock()
	g.log.Error().Err(cause).Stringer("position", p).Str("hint", haltHint).Msg("halted: an event can't be published and nothing may pass it")
	if g.exit {
		g.fatal(&HaltError{Position: p, Cause: cause})
	}
}

// open forgets the event at p: it has been published after all.
func (g *gate) open(p wal.Position) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := g.halted[p]; !ok {
		return
	}
	g.forgetLocked(p)
	g.log.Info().Stringer("position", p).Msg("the event that halted has been published")
}

// forget takes back a halt without an outcome: its event will be read again.
func (g *gate) forget(p wal.Position) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.forgetLocked(p)
}

func (g *gate) forgetLocked(p wal.Position) {
	delete(g.halted, p)
	if len(g.halted) == 0 && g.opened != nil {
		close(g.opened)
		g.opened = nil
		g.isShut.Store(false)
	}
}

// cause returns why the gate is shut: the first event in order, and nil where it is open.
func (g *gate) cause() *HaltError {
	g.mu.Lock()
	defer g.mu.Unlock()
	var first *HaltError
	for p, err := range g.halted {
		if first == nil || p.Compare(first.Position) < 0 {
			first = &HaltError{Position: p, Cause: err}
		}
	}
	return first
}

// wait blocks while the gate is shut. A stop isn't held up by a halt, which only an operator mends.
func (g *gate) wait(ctx context.Context, stop <-chan struct{}) error {
	for {
		g.mu.Lock()
		opened := g.opened
		g.mu.Unlock()
		if opened == nil {
			return nil
		}
		select {
		case <-opened:
		case <-stop:
			return errHalted
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// shutAndTry shuts the gate for the event at p and calls try every haltRetry until it says nil or
// the session ends. It is for what halts before the sink, where nobody else tries again.
func (g *gate) shutAndTry(ctx context.Context, stop <-chan struct{}, p wal.Position, cause error, try func() error) error {
	g.shut(p, cause)
	defer g.forget(p)
	t := time.NewTicker(haltRetry)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-stop:
			return fmt.Errorf("%w: %w", errHalted, cause)
		case <-t.C:
			err := try()
			if err == nil {
				g.log.Info().Stringer("position", p).Msg("what halted is mended: going on")
				return nil
			}
			g.log.Error().Err(err).Stringer("position", p).Msg("still halted")
		}
	}
}
