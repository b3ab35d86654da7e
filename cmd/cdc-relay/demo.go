package main

import (
	"io"
	"os"
	"slices"
	"strings"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/cdc-relay/cdc-relay/internal/demo"
)

func (a *app) demoCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Kill a relay in mid-stream, on a real Postgres and a broker, and check the outcome",
		Long: "Starts a Postgres and a broker of its own, lets an order service write orders and events, relays them\n" +
			"with a child process that is killed in mid-stream and started again, and compares the topic with\n" +
			"the outbox. Nothing is left behind. It exits with 3 where the topic isn't what the outbox says.",
		Example: "  cdc-relay demo\n" +
			"  cdc-relay demo --rate 200 --for 30s   # a load test: latency from commit to consumer",
		Args: cobra.NoArgs,
	}
	var o demo.Options
	flags := cmd.Flags()
	flags.IntVar(&o.Events, "events", 0, "events to write (default 20000)")
	flags.Float64Var(&o.Rate, "rate", 0, "events per second (default: as fast as it goes)")
	flags.DurationVar(&o.For, "for", 0, "write for so long at --rate, without a kill, and measure the latency")
	flags.StringVar(&o.Broker, "broker", "", "kafka or embedded (default: kafka where Java is, else embedded)")
	flags.BoolVar(&o.Keep, "keep", false, "leave the servers up after the verdict, until Ctrl-C")
	// These two are no keys of the configuration: it may name production, and the demo writes.
	flags.StringVar(&o.DatabaseURL, "database-url", "", "use this server, as a superuser, in a database that is made and dropped (never taken from the environment)")
	flags.StringSliceVar(&o.KafkaBrokers, "kafka-brokers", nil, "use these brokers, with a topic that is made and deleted (never taken from the environment)")
	form := a.outputFlag(cmd, "text")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, stop := a.signals(cmd.Context())
		defer stop()
		o.Out, o.Progress = a.out, a.out
		if o.JSON = *form == "json"; o.JSON {
			o.Progress = a.err // standard output is the machine's
		}
		o.TTY = terminal(o.Progress)
		o.Color = terminal(a.out) && !slices.ContainsFunc(a.environ, func(v string) bool {
			return strings.HasPrefix(v, "NO_COLOR=") && v != "NO_COLOR="
		})
		_, err := demo.Run(ctx, o)
		return err
	}
	return cmd
}

func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}
