package relay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/cdc-relay/cdc-relay/checkpoint"
	"github.com/cdc-relay/cdc-relay/sink"
	"github.com/cdc-relay/cdc-relay/wal"
)

// Relay publishes the events of one slot. Run it once.
type Relay struct {
	cfg     Config
	gate    *gate
	handler *handler
	sink    sink.Sink
	// hard ends everything at once: the time to drain is over, or a halt must end the process.
	hard context.Context //nolint:containedctx // it is the relay's life, made with it
	end  context.CancelCauseFunc
	// unchecked is why Check has no answer yet, nil once it has.
	unchecked atomic.Pointer[error]
	stored    storedAt
	stopBy    atomic.Int64 // when a stop that was asked for must be over, in ns since 1970
	// storedEvents counts the session's events that the stored position covers.
	storedEvents atomic.Uint64
	saves        saves
	leftover     leftover
	took         wal.LSN // the stored position as the last session began. Only Run's goroutine uses it.

	source atomic.Pointer[sourceBox] // of the running session

	mu     sync.Mutex
	phase  Phase
	reason string // why it waits, where it does
}

type sourceBox struct{ Source }

// errDrain ends what a stop still waited for.
var errDrain = errors.New("the time of shutdown.drain is over")

var errUnasked = errors.New("the topic has not been looked at yet")

// New assembles a relay. It does no I/O.
func New(cfg Config) *Relay {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	r := &Relay{cfg: cfg, phase: PhaseStarting, reason: "there is no session with Postgres yet"}
	r.unchecked.Store(&errUnasked)
	r.hard, r.end = context.WithCancelCause(context.Background())
	r.gate = newGate(cfg.ExitOnHalt, cfg.Log, r.end)
	r.handler = newHandler(r.gate, &r.cfg.Events, cfg.Now)
	return r
}

// Run publishes until ctx ends, then stops in two steps: it reads on to the end of the open
// transaction and waits for the acks, for at most Drain; then it stops hard. It returns nil
// after a stop that left nothing behind, an *UnackedError after one that did, and the cause
// where it can't go on; errors that end it carry their exit code.
func (r *Relay) Run(ctx context.Context) error {
	defer r.end(nil)
	defer context.AfterFunc(ctx, func() {
		r.enter(PhaseStopping, "stopping")
		r.stopBy.Store(r.cfg.Now().Add(r.cfg.Drain).UnixNano())
		drain := time.AfterFunc(r.cfg.Drain, func() { r.end(errDrain) })
		context.AfterFunc(r.hard, func() { drain.Stop() })
	})()
	s, err := r.cfg.Sink(r.handler)
	if err != nil {
		return fmt.Errorf("open the sink: %w", err)
	}
	r.sink = s
	defer r.check(ctx)()
	return r.close(ctx, r.supervise(ctx))
}

// DrainLeft is what is left of the time that a stop may take; 0 before one was asked for.
func (r *Relay) DrainLeft() time.Duration {
	by := r.stopBy.Load()
	if by == 0 {
		return 0
	}
	return time.Unix(0, by).Sub(r.cfg.Now())
}

// check asks whether Kafka fits the configuration. It goes on in the background when there is no
// answer soon; leave ends that.
func (r *Relay) check(ctx context.Context) (leave func()) {
	asking, cancel := context.WithCancel(r.hard)
	context.AfterFunc(ctx, cancel)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel()
		noted := false
		_, err := retry(asking, r.cfg.Slot, "compare configuration, contract and topic", func(err error) {
			if !noted {
				r.cfg.Log.Warn().Err(err).Msg("topic and contract can't be looked at yet; trying again")
			}
			noted = true
			r.unchecked.Store(&err)
		}, func() (struct{}, error) { return struct{}{}, r.cfg.Check(asking) })
		if err == nil {
			r.unchecked.Store(nil)
		} else if asking.Err() == nil {
			r.end(err)
		}
	}()
	select {
	case <-done:
	case <-time.After(checkFirst):
	}
	return func() {
		cancel()
		<-done
	}
}

// supervise runs sessions until ctx ends or one ends for good.
func (r *Relay) supervise(ctx context.Context) error {
	wait := pace(r.cfg.Slot)
	for ctx.Err() == nil && r.hard.Err() == nil {
		began := r.cfg.Now()
		err := r.session(ctx)
		if ctx.Err() != nil || r.hard.Err() != nil {
			return err
		}
		if f := final(err); f != nil {
			return f
		}
		// A session that was good for something is no sign of an outage, however soon it was lost.
		if r.stored.Stored() > r.took || r.cfg.Now().Sub(began) > time.Minute {
			wait.Reset()
		}
		pause := wait.NextBackOff()
		level := zerolog.WarnLevel
		if r.reasonIs(err.Error()) {
			level = zerolog.DebugLevel // as before: a line per change, not one per try
		}
		if standby(err) {
			pause = standbyEvery
			if r.disowned(err) {
				r.handler.tracker.Store(nil) // what is left is the other relay's to publish
				r.leftover.theirs = true
			}
			r.enter(PhaseStandby, err.Error())
		} else {
			r.enter(PhaseWaiting, err.Error())
			if r.cfg.Events.Reconnect != nil {
				r.cfg.Events.Reconnect("postgres")
			}
		}
		r.cfg.Log.WithLevel(level).Err(err).Dur("retry_in", pause).Msg("no session with Postgres; trying again")
		select {
		case <-ctx.Done():
			return nil
		case <-r.hard.Done():
			return nil
		case <-time.After(pause):
		}
	}
	return nil
}

// standby says whether the session ended because another relay works on the slot, or makes it.
func standby(err error) bool {
	_, active := wal.IsSlotActive(err)
	return active || errors.Is(err, checkpoint.ErrOwnerLost) || errors.Is(err, checkpoint.ErrSlotBeingMade)
}

// disowned says whether another relay owns the row. That the slot is in use doesn't tell: it may be by
// our own connection, which the server hasn't noticed the end of. A stop waits for the answer: it says
// what the stop leaves behind.
func (r *Relay) disowned(standby error) bool {
	if errors.Is(standby, checkpoint.ErrOwnerLost) {
		return true
	}
	asking, cancel := context.WithTimeout(r.hard, saveTimeout)
	defer cancel()
	return errors.Is(r.cfg.Store.CheckOwner(asking), checkpoint.ErrOwnerLost)
}

// close ends the sink and judges what is left behind.
func (r *Relay) close(ctx context.Context, err error) error {
	if cause := context.Cause(r.hard); cause != nil && !errors.Is(cause, errDrain) {
		err = cause // a halt that ends the relay, whatever the session made of it
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), finalStatus)
	defer cancel()
	unsettled, cerr := r.sink.Close(closing)
	stopped := ctx.Err() != nil && final(err) == nil
	if err != nil && !stopped {
		if cerr != nil {
			r.cfg.Log.Warn().Err(cerr).Msg("close the sink")
		}
		return err
	}
	n := r.leftover.count(r.stored.Stored(), unsettled)
	if n > 0 || errors.Is(err, errDrain) || errors.Is(err, errHalted) {
		return &UnackedError{Events: n, From: r.stored.Stored(), Cause: errors.Join(err, cerr)}
	}
	if err != nil { // Postgres was away, and nothing that it should know was left to say
		r.cfg.Log.Warn().Err(err).Msg("stopped without Postgres; no event was left and none will repeat")
	}
	return cerr
}

// reasonIs tells whether the relay waits for this reason already.
func (r *Relay) reasonIs(reason string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.phase != PhaseStreaming && r.reason == reason
}

func (r *Relay) enter(p Phase, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.phase == PhaseStopping {
		return
	}
	r.phase, r.reason = p, reason
}
