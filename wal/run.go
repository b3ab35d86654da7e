package wal

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// errServerEnded: the server sent the end of the stream, which it does at a clean shutdown.
var errServerEnded = fmt.Errorf("%w: it ended the stream", ErrServerStopping)

// Run hands on what the server sends until ctx ends, and tells it what st has stored. It is
// the only one to use the connection, and the only sender on out, which it closes; the
// connection is closed when it returns. Frames that were read before an error are handed on
// before Run returns it.
//
// When ctx ends, frames that nobody has taken are dropped, the server is sent a last status
// and asked to end the stream: nil says that it confirmed, ErrNotDrained that it didn't within
// the time that Config.Drain gives.
func (s *Stream) Run(ctx context.Context, st Stored, out chan<- *Batch) error {
	defer close(out)
	if s.raw == nil {
		return errors.New("run replication stream: it has not been started")
	}
	defer s.Close()
	r := s.newRunner(ctx, st, out)
	err := r.loop()
	r.unwatch()
	if errors.Is(err, errStopped) {
		err = r.stop()
	}
	if err != nil {
		return fmt.Errorf("replication stream of slot %q: %w", s.cfg.Slot, err)
	}
	return nil
}

// errStopped passes the end of ctx up to Run.
var errStopped = errors.New("stopped")

// runner is the state of a Run.
type runner struct {
	s        *Stream
	ctx      context.Context
	st       Stored
	out      chan<- *Batch
	rc       *receiver
	sched    schedule
	pace     pacer
	conf     LSN       // what was confirmed last
	quiet    time.Time // since when the server could have been heard and was not
	silence  time.Duration
	deadline time.Time // of reads, as it is set
	timer    *time.Timer
	msg      [messageHeader + statusSize]byte
	unwatch  func() // ends the watch over ctx
}

func (s *Stream) newRunner(ctx context.Context, st Stored, out chan<- *Batch) *runner {
	r := &runner{
		s: s, ctx: ctx, st: st, out: out, conf: s.start,
		rc:    newReceiver(s.feed.src, s.feed.rest(), s.Received(), s.notice),
		sched: schedule{interval: s.cfg.statusInterval(s.sender)}, silence: s.cfg.silence(s.sender),
		timer: time.NewTimer(time.Hour),
	}
	r.timer.Stop()
	// One watch for the whole run: the end of ctx interrupts the read that is in progress.
	woken := make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		defer close(woken)
		_ = s.raw.SetReadDeadline(longAgo) // fails on a closed connection, where reads fail too
	})
	r.unwatch = func() {
		if !cancel() {
			<-woken // so that it can't undo a deadline that is set from here on
		}
	}
	return r
}

// longAgo as a deadline fails reads at once.
var longAgo = time.Unix(1, 0)

func (r *runner) loop() error {
	now := time.Now()
	r.quiet = now
	if err := r.digest(now, nil); err != nil { // what came with the answer to Start
		return err
	}
	for {
		if err := r.upkeep(now); err != nil {
			return err
		}
		// After the deadline was moved: an end of ctx that is missed here interrupts the read.
		if r.ctx.Err() != nil {
			return errStopped
		}
		n, err := r.rc.read()
		now = time.Now()
		if n > 0 {
			r.quiet = now
			r.s.heard.Store(int64(now.Sub(r.s.opened)))
		}
		if err := r.digest(now, err); err != nil {
			return err
		}
		now = r.gather(n, now)
	}
}

// digest finds the frames in what a read brought, and hands them over unless there is room in
// the slab and more to be had without waiting.
func (r *runner) digest(now time.Time, readErr error) error {
	err := r.rc.parse()
	r.sched.asked = r.sched.asked || r.rc.reply
	r.rc.reply = false
	r.s.named(r.rc.named)
	switch {
	case err != nil:
		return r.last(now, err)
	case errors.Is(readErr, os.ErrDeadlineExceeded):
	case errors.Is(readErr, io.EOF):
		return r.last(now, fmt.Errorf("server closed the connection without a word: %w", readErr))
	case readErr != nil:
		return r.last(now, fmt.Errorf("read: %w", readErr))
	case !r.rc.full() && (!r.rc.complete || r.s.dialed.more()):
		return nil
	}
	return r.handOver(now)
}

// gather lets the socket fill before the next read, if that is worth it.
func (r *runner) gather(n int, now time.Time) time.Time {
	if r.pace.next(n, now) && r.s.dialed.drained() {
		r.s.dialed.gather()
		r.timer.Reset(pause)
		return <-r.timer.C
	}
	if !r.pace.pacing {
		r.s.dialed.relax()
	}
	return now
}

// last hands over what came before err, the end of the stream.
func (r *runner) last(now time.Time, err error) error {
	if e := r.handOver(now); e != nil {
		return e
	}
	var notice *missingNotice
	if errors.As(err, &notice) {
		return publicationError(r.s.cfg.Publication, notice.PgError)
	}
	return streamError(r.s.cfg.Publication, err)
}

// upkeep sends a status if it is due, looks for silence, and moves the deadline of reads.
func (r *runner) upkeep(now time.Time) error {
	if now.Sub(r.quiet) >= r.silence {
		return fmt.Errorf("%w: nothing heard for %s", ErrSilent, now.Sub(r.quiet).Round(time.Millisecond))
	}
	if !now.Before(r.sched.due()) {
		if err := r.status(now); err != nil {
			return err
		}
	}
	wake := r.sched.due()
	if dead := r.quiet.Add(r.silence); dead.Before(wake) {
		wake = dead
	}
	// Most reads leave the deadline where it is, or would only move it right.
	if wake.Before(r.deadline) || !now.Before(r.deadline) {
		r.deadline = wake
		if err := r.s.raw.SetReadDeadline(wake); err != nil {
			return fmt.Errorf("set deadline: %w", err)
		}
	}
	return nil
}

// handOver gives the frames to the consumer. While that blocks, statuses go on.
func (r *runner) handOver(now time.Time) error {
	b := r.rc.take()
	if b == nil {
		return nil
	}
	select {
	case r.out <- b:
		return nil
	default:
	}
	for {
		r.timer.Reset(max(0, r.sched.due().Sub(now)))
		select {
		case r.out <- b:
			r.timer.Stop()
			r.quiet = time.Now() // nobody was listening
			return nil
		case <-r.ctx.Done():
			r.timer.Stop()
			b.Release()
			return errStopped
		case now = <-r.timer.C:
			if err := r.status(now); err != nil {
				b.Release()
				return err
			}
		}
	}
}

// status confirms what is stored.
func (r *runner) status(now time.Time) error {
	if err := r.confirm(); err != nil {
		return err
	}
	r.encode(now, r.sched.sent(now))
	// A write that can't be finished means a dead connection, so it may as well fail.
	if err := r.s.raw.SetWriteDeadline(time.Now().Add(r.silence)); err != nil {
		return fmt.Errorf("set deadline: %w", err)
	}
	if _, err := r.s.raw.Write(r.msg[:]); err != nil {
		return fmt.Errorf("send status: %w", err)
	}
	return nil
}

// confirm moves conf to what is stored. It never goes back, and never beyond what the server
// itself has named: Postgres would believe it, and skip what lies between.
func (r *runner) confirm() error {
	stored := r.st.Stored()
	if stored > r.rc.named {
		return fmt.Errorf("%w: %s is stored, and the server has named nothing beyond %s; nothing was confirmed", ErrAhead, stored, r.rc.named)
	}
	r.conf = max(r.conf, stored)
	return nil
}

func (r *runner) encode(now time.Time, probe bool) {
	r.msg[0] = 'd'
	binary.BigEndian.PutUint32(r.msg[1:], uint32(len(r.msg)-1))
	putStatus((*[statusSize]byte)(r.msg[messageHeader:]), r.conf, now, probe)
}
