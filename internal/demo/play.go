package demo

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// play is one run of the demo in its environment.
type play struct {
	o       Options
	console *console
	env     *environment

	conn    *pgx.Conn
	relay   *relay
	slot    string
	service *service
	reader  *follower
	kills   []Kill
	// storedAtKill is how far the relay was that was killed last, as an LSN.
	storedAtKill string

	serviceDone chan error
}

// run plays and judges. All that it started has ended when it returns.
func (p *play) run(ctx context.Context) (v Verdict, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if p.conn, err = pgx.Connect(ctx, p.env.url); err != nil {
		return v, fmt.Errorf("connect to the demo's database: %w", err)
	}
	defer func() { err = errors.Join(err, p.conn.Close(context.WithoutCancel(ctx))) }()

	p.storedAtKill = "0/0"
	p.relay = &relay{exe: p.o.Exe, env: p.env}
	if err := p.relay.start(); err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, p.relay.kill()) }()
	if p.reader, err = follow(p.env.brokers, p.env.topic); err != nil {
		return v, err
	}
	defer p.reader.stop()

	if err := p.awaitStart(ctx); err != nil {
		return v, err
	}
	if err := p.traffic(ctx, cancel); err != nil {
		return v, err
	}
	if err := p.relay.stop(ctx); err != nil {
		return v, err
	}
	p.console.line("The relay stopped cleanly. Reading the topic back.")
	v, err = verify(ctx, p.conn, p.env.brokers, p.env.topic, partitions)
	if err != nil {
		return v, err
	}
	p.tell(&v)
	return v, nil
}

// tell adds to the verdict what only the play knows.
func (p *play) tell(v *Verdict) {
	v.Postgres, v.Broker = p.env.database, p.env.broker
	v.Kills = p.kills
	v.RolledBack = int(p.service.undone.Load())
	v.WrittenPerSecond = perSecond(p.service.events.Load(), p.service.end.Sub(p.service.first))
	v.RelayedPerSecond = perSecond(p.reader.events.Load(), p.reader.last().Sub(p.service.first))
	if p.o.For > 0 {
		v.Latency = p.reader.latency(p.service.commits)
	}
}

func perSecond(n int64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}

// traffic runs the order service, with a kill in the middle unless it is a load test, and
// returns when all events are in the topic.
func (p *play) traffic(ctx context.Context, cancel func()) error {
	t := p.console.track("events", int64(p.o.Events))
	defer t.done()
	p.service = &service{url: p.env.url, rate: p.rate(), budget: p.o.Events}
	p.serviceDone = make(chan error, 1)
	go func() { p.serviceDone <- p.service.run(ctx) }()
	written := false
	defer func() {
		if !written {
			cancel()
			<-p.serviceDone //nolint:errcheck // the first failure is what counts
		}
	}()
	if p.o.For == 0 {
		if err := p.killInMidStream(ctx, t); err != nil {
			return err
		}
	}
	err := p.await(ctx, t, func() (bool, error) {
		select {
		case err := <-p.serviceDone:
			written = true
			return true, err
		default:
			return false, nil
		}
	})
	if err != nil {
		return err
	}
	err = p.await(ctx, t, func() (bool, error) { return p.reader.events.Load() >= int64(p.o.Events), nil })
	if err == nil {
		err = p.awaitRelay(ctx, t)
	}
	var stalled *stalledError
	if errors.As(err, &stalled) {
		// The verdict tells it better: what is missing now is lost.
		p.console.line("%v", err)
		return nil
	}
	return err
}

// writeTime is the least time that the writing takes, where no rate is asked for: the kill
// shall fall into the traffic also where there are few events.
const writeTime = 3 * time.Second

func (p *play) rate() float64 {
	if p.o.Rate > 0 {
		return p.o.Rate
	}
	return float64(p.o.Events) / p.o.writing.Seconds()
}

// killTries is how often a kill is tried until one hits events that were unconfirmed.
const killTries = 5

// killInMidStream kills the relay when a third of the events is in the topic, and starts it
// again. A kill that hit no unconfirmed event proves nothing, and another one follows.
func (p *play) killInMidStream(ctx context.Context, t *track) error {
	for try := range killTries {
		target := int64(max(1, p.o.Events*(killTries+try)/(3*killTries)))
		err := p.await(ctx, t, func() (bool, error) { return p.reader.events.Load() >= target, nil })
		if err != nil {
			return err
		}
		if try > 0 {
			if err := p.freeze(ctx, t); err != nil {
				return err
			}
		}
		k, err := p.killOnce(ctx)
		if err != nil {
			return err
		}
		p.console.line("Killed the relay with SIGKILL: of %[2]s committed events %[1]s were in the topic and %[3]s unconfirmed. Started it again.",
			count(k.InTopic), count(k.Committed), count(k.Unconfirmed))
		p.kills = append(p.kills, k)
		if k.Unconfirmed > 0 {
			return nil
		}
	}
	return nil
}

// freeze stops the relay in its tracks until something was committed that it can't know of,
// so that the kill that follows hits something. With all events written there is no such.
func (p *play) freeze(ctx context.Context, t *track) error {
	if err := p.relay.proc.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	before := p.service.events.Load()
	return p.await(ctx, t, func() (bool, error) {
		n := p.service.events.Load()
		return n > before || n == int64(p.o.Events), nil
	})
}

func (p *play) killOnce(ctx context.Context) (k Kill, err error) {
	before, err := position(ctx, p.conn)
	if err != nil {
		return k, err
	}
	if err := p.relay.kill(); err != nil {
		return k, err
	}
	k.InTopic, k.Committed = int(p.reader.events.Load()), int(p.service.events.Load())
	if k.Unconfirmed, p.storedAtKill, err = unconfirmed(ctx, p.conn, p.slot, before); err != nil {
		return k, err
	}
	// The service counts a commit a moment after it happened.
	k.Committed = max(k.Committed, k.InTopic, k.Unconfirmed)
	return k, p.relay.start()
}

// awaitRelay returns when the relay that was started last is at work: it has connected to
// the slot, or has stored more than the one before. What it has to publish may all be in the
// topic already, from before the kill.
func (p *play) awaitRelay(ctx context.Context, t *track) error {
	return p.await(ctx, t, func() (atWork bool, err error) {
		err = p.conn.QueryRow(ctx, `SELECT active OR coalesce((SELECT stored > $2::pg_lsn FROM cdc_relay.checkpoint WHERE slot = $1), false)
			FROM pg_replication_slots WHERE slot_name = $1`, p.slot, p.storedAtKill).Scan(&atWork)
		if err != nil {
			return false, fmt.Errorf("ask whether the relay is at work: %w", err)
		}
		return atWork, nil
	})
}

// startLimit is how long the relay may take from its start to its slot.
const startLimit = time.Minute

// awaitStart returns when each commit from now on is the relay's to publish, and it is at work.
func (p *play) awaitStart(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("the relay has not started in %s", startLimit))
	defer cancel()
	t := p.console.track("relay", 0)
	defer t.done()
	t.text("starting")
	err := p.await(ctx, nil, func() (ok bool, err error) {
		p.slot, ok, err = slot(ctx, p.conn)
		return ok, err
	})
	if err != nil {
		return err
	}
	// The latency of a load test is not that of a start.
	if err := p.awaitRelay(ctx, nil); err != nil {
		return err
	}
	return p.await(ctx, nil, func() (bool, error) { return p.reader.ready(), nil })
}

// stallLimit is how long the topic may get nothing new before the demo gives up.
const stallLimit = time.Minute

// stalledError says that the topic gets nothing new.
type stalledError struct {
	limit       time.Duration
	have, want  int
	lastOfRelay string
}

func (e *stalledError) Error() string {
	return fmt.Sprintf("nothing new is in the topic for %s; %s of %s events are. The relay's last lines:%s",
		e.limit, count(e.have), count(e.want), e.lastOfRelay)
}

// await polls until ready. It gives up when the relay has ended, when the topic gets nothing
// new for too long, and with ctx; the error then holds the relay's last lines.
func (p *play) await(ctx context.Context, t *track, ready func() (bool, error)) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	seen, since := int64(-1), time.Now()
	for {
		ok, err := ready()
		if ok || err != nil {
			return err
		}
		if err := errors.Join(p.relay.died(), p.reader.failed()); err != nil {
			return err
		}
		n := p.reader.events.Load()
		if n != seen {
			seen, since = n, time.Now()
		}
		if time.Since(since) > p.o.stall {
			return &stalledError{p.o.stall, int(n), p.o.Events, p.relay.proc.Tail()}
		}
		if t != nil {
			t.set(n, fmt.Sprintf("%s written, %s in the topic", count(int(p.service.events.Load())), count(int(n))))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
