package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cdc-relay/cdc-relay/checkpoint"
	"github.com/cdc-relay/cdc-relay/wal"
)

// settleWait is how long the end of a session waits for what is in flight, so that its acks can
// still be stored: what is stored doesn't repeat. An outage of Kafka may outlast it.
const settleWait = 10 * time.Second

// errStreamEnded: the stream closed its channel. Why it did, it says when it returns.
var errStreamEnded = errors.New("the stream ended without an error")

// session is one replication connection, from its opening to its end. ctx ends it gently (at a
// transaction's end, with everything acknowledged), hard ends it at once. It returns nil only
// after a gentle end that left nothing behind.
func (r *Relay) session(ctx context.Context) error {
	hard := r.hard
	opening, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(hard, cancel)()
	src, origin, err := r.start(opening)
	if err != nil {
		if ctx.Err() != nil {
			return nil // asked to stop before anything was under way
		}
		return err
	}
	defer r.leave(src)

	streaming, stopStream := context.WithCancel(context.WithoutCancel(ctx))
	defer stopStream()
	work, fail := context.WithCancelCause(hard)
	defer fail(nil)
	batches := make(chan *wal.Batch, batchesAhead)
	streamed := make(chan error, 1)
	go func() {
		err := src.Run(streaming, &r.stored, batches)
		if err != nil {
			fail(err)
		}
		streamed <- err
	}()

	tracker, err := r.pump(ctx, work, origin, batches, fail)
	if err != nil && ctx.Err() == nil {
		// The server first: it may be waiting for us to leave, to stop or to switch over.
		stopStream()
		drainBatches(batches)
	}
	if tracker != nil {
		if serr := r.settle(ctx, tracker, err); err == nil {
			err = serr
		}
		r.leftover.ended(int(tracker.Added()), int(r.storedEvents.Load()))
	}
	stopStream()
	drainBatches(batches)
	serr := <-streamed
	switch {
	case errors.Is(err, errStreamEnded) && serr != nil:
		err = serr
	case err == nil && serr != nil:
		err = serr
		if ctx.Err() != nil { // everything is stored: the final status is a courtesy
			r.cfg.Log.Warn().Err(serr).Msg("the final status may not have reached Postgres; the stored position holds")
			err = nil
		}
	}
	return err
}

// start opens a connection, starts the stream where Origins decided, and takes the owner token, in
// this order: whoever holds the slot is the only one who can take it.
func (r *Relay) start(ctx context.Context) (Source, Origin, error) {
	src, origin, err := r.cfg.Origins.Open(ctx)
	if err != nil {
		return nil, origin, err
	}
	if err := src.Start(ctx, origin.Start); err != nil {
		r.leave(src)
		return nil, origin, err
	}
	r.leftover.began(origin.Lineages)
	stored, err := r.cfg.Store.Take(ctx)
	if err == nil && stored < origin.Start {
		err = &StartError{Slot: r.cfg.Slot, Start: origin.Start, Stored: stored}
	}
	if err != nil {
		r.leave(src)
		return nil, origin, err
	}
	r.stored.set(stored)
	r.took = stored
	r.source.Store(&sourceBox{src})
	return src, origin, nil
}

// leave drops a connection. That it can't be closed in good order changes nothing.
func (r *Relay) leave(src Source) {
	if err := src.Close(); err != nil {
		r.cfg.Log.Debug().Err(err).Msg("close the replication connection")
	}
}

// pump publishes what comes until the session ends. The tracker is nil when it ended before
// anything was published.
func (r *Relay) pump(ctx, work context.Context, origin Origin, in <-chan *wal.Batch, fail context.CancelCauseFunc) (*checkpoint.Tracker, error) {
	// What an earlier session left in flight is settled first: its order comes before what is
	// read now, and its acks belong to its own tracker. The slot is held meanwhile.
	if err := r.flush(work); err != nil {
		if work.Err() != nil {
			return nil, err
		}
		// A topic can't be gone on with. The slot is held, as with any halt.
		err = r.gate.shutAndTry(work, ctx.Done(), wal.Position{}, err, func() error { return r.flush(work) })
		if err != nil {
			return nil, err
		}
	}
	tracker := checkpoint.NewTracker(origin.Start, r.cfg.Limits)
	r.handler.tracker.Store(tracker)
	r.storedEvents.Store(0)
	r.enter(PhaseStreaming, "")

	saving, stopSaving := context.WithCancel(work)
	saved := make(chan struct{})
	go func() {
		defer close(saved)
		if err := r.keepSaving(saving, tracker); err != nil {
			fail(err)
		}
	}()
	p := newPump(&r.cfg, r.sink, r.gate, tracker, origin, ctx.Done())
	err := p.run(work, in)
	r.leftover.handed(p.handed)
	stopSaving()
	<-saved
	if cause := context.Cause(work); cause != nil && errors.Is(err, context.Canceled) {
		err = cause // why what the pump waited for was ended
	}
	if err == nil && ctx.Err() == nil {
		err = errStreamEnded
	}
	return tracker, err
}

// flush waits until what is in flight is settled, or work ends.
func (r *Relay) flush(work context.Context) error {
	if err := r.sink.Flush(work); err != nil {
		if cause := context.Cause(work); cause != nil {
			return cause
		}
		return fmt.Errorf("flush the sink: %w", err)
	}
	return nil
}

// settle waits for the acks of what the session produced and stores the position they allow.
func (r *Relay) settle(ctx context.Context, tracker *checkpoint.Tracker, failed error) error {
	waiting, cancel := context.WithCancelCause(r.hard)
	defer cancel(nil)
	if halt := r.gate.cause(); halt != nil { // only an operator settles that
		defer time.AfterFunc(finalStatus, func() { cancel(fmt.Errorf("%w: %w", errHalted, halt.Cause)) }).Stop()
	} else if failed != nil && ctx.Err() == nil {
		defer time.AfterFunc(settleWait, func() { cancel(nil) }).Stop()
	}
	err := r.flush(waiting)
	storing, cancelStore := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancelStore()
	if serr := r.save(storing, tracker); serr != nil && err == nil {
		err = serr
	}
	return err
}

// drainBatches gives back what nobody will read. The stream closes the channel when it ends.
func drainBatches(in <-chan *wal.Batch) {
	for b := range in {
		b.Release()
	}
}
