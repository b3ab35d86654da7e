package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// Options say what the demo does. The zero value is the demo of the README, on servers of
// its own.
type Options struct {
	// Events is how many the order service writes; 0 is 20,000, or Rate times For.
	Events int
	// Rate, in events per second, slows the service down; 0 is as fast as it can, but over
	// three seconds at least, so that the kill falls into the traffic.
	Rate float64
	// For makes it a load test of that length: it needs a Rate, has no kill, and measures
	// the latency from commit to consumer.
	For time.Duration
	// Broker is kafka, embedded, or empty for a real Kafka where one can be started.
	Broker string
	// Keep leaves the servers up after the verdict, until the context ends.
	Keep bool
	// DatabaseURL is a server to use in place of our own; its user is a superuser. The demo
	// makes a database there and drops it. KafkaBrokers likewise, with a topic. Neither may
	// come from the environment: that may name production.
	DatabaseURL  string
	KafkaBrokers []string
	// Exe is the relay's program; empty is this program.
	Exe string
	// Out gets the verdict; Progress what happens before it, and is Out where it is nil.
	Out, Progress io.Writer
	// TTY says that Progress is a terminal, whose lines can be written again. Color that
	// Out shows colors.
	TTY, Color bool
	// JSON prints the verdict as one JSON object.
	JSON bool

	stall, writing time.Duration // tests shorten them
}

const (
	defaultEvents = 20_000
	partitions    = 12
	publication   = "outbox"
)

// Run runs the demo and prints its verdict. A verdict that isn't clean comes with a
// *NotCleanError. Nothing is left behind, also when ctx ends early.
func Run(ctx context.Context, o Options) (Verdict, error) {
	if err := o.complete(); err != nil {
		return Verdict{}, err
	}
	c := newConsole(o.Progress, o.TTY)
	defer c.close()
	env, err := open(ctx, o, c)
	if err != nil {
		return Verdict{}, interrupted(ctx, err)
	}
	v, err := runIn(ctx, o, c, env)
	return v, errors.Join(interrupted(ctx, err), env.close())
}

// interrupted puts an early end of ctx in the place of the errors that it led to.
func interrupted(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("the demo was interrupted: %w", context.Cause(ctx))
}

// complete checks the options and fills in the defaults.
func (o *Options) complete() error {
	switch {
	case o.Events < 0 || o.Rate < 0 || o.For < 0:
		return &UsageError{"events, rate and for can't be negative"}
	case o.For > 0 && o.Rate == 0:
		return &UsageError{"for needs a rate: together they say how many events there are"}
	case o.For > 0 && o.Events > 0:
		return &UsageError{"for and events contradict each other: a rate and a time say how many events there are"}
	case o.Broker != "" && o.Broker != "kafka" && o.Broker != "embedded":
		return &UsageError{fmt.Sprintf("broker %q: it is kafka or embedded", o.Broker)}
	case o.Broker == "embedded" && len(o.KafkaBrokers) > 0:
		return &UsageError{"an embedded broker and the address of another one contradict each other"}
	}
	if o.Events == 0 {
		o.Events = defaultEvents
	}
	if o.For > 0 {
		o.Events = max(1, int(o.Rate*o.For.Seconds()))
	}
	if o.stall == 0 {
		o.stall = stallLimit
	}
	if o.writing == 0 {
		o.writing = writeTime
	}
	if o.Out == nil {
		o.Out = io.Discard
	}
	if o.Progress == nil {
		o.Progress = o.Out
	}
	if o.Exe == "" {
		exe, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find this program, to run it as the relay: %w", err)
		}
		o.Exe = exe
	}
	exe, err := filepath.Abs(o.Exe) // the relay runs in another folder
	if err != nil {
		return fmt.Errorf("find the relay's program: %w", err)
	}
	o.Exe = exe
	return nil
}

// UsageError says which options don't go together.
type UsageError struct{ cause string }

func (e *UsageError) Error() string { return "demo: " + e.cause }

// ExitCode is that of a wrong usage.
func (e *UsageError) ExitCode() int { return 2 }

func runIn(ctx context.Context, o Options, c *console, env *environment) (Verdict, error) {
	c.line("Postgres: %s", env.database)
	c.line("Broker:   %s", env.broker)
	p := &play{o: o, console: c, env: env}
	v, err := p.run(ctx)
	if err != nil {
		return v, err
	}
	c.close()
	if err := v.print(o.Out, o.JSON, o.Color); err != nil {
		return v, fmt.Errorf("print the verdict: %w", err)
	}
	if o.Keep && ctx.Err() == nil {
		fmt.Fprintf(o.Progress, "\nThe servers stay up until Ctrl-C:\n  DATABASE_URL=%s\n  KAFKA_BROKERS=%s\n  topic %s\n  files in %s\n",
			env.url, join(env.brokers), env.topic, env.folder.Path())
		<-ctx.Done()
	}
	if !v.Clean() {
		return v, &NotCleanError{Verdict: v}
	}
	return v, nil
}
