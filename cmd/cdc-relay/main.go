package main

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"
)

func main() {
	a := &app{environ: os.Environ(), out: os.Stdout, err: os.Stderr, exit: os.Exit}
	os.Exit(a.run(context.Background(), os.Args[1:]))
}

// app is what the commands share.
type app struct {
	environ []string
	out     io.Writer
	err     io.Writer
	exit    func(int) // for a second signal

	began bool // a command's own code ran, so what went wrong isn't the command line
}

// run executes one command line and returns the exit code. The error is printed here, once.
func (a *app) run(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err != nil && !a.began {
		err = &usageError{cause: err}
	}
	report(a.err, err)
	return exitCode(err)
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "cdc-relay",
		Short: "Streams the events of a transactional outbox from Postgres to Kafka",
		Long: "Streams the events of a transactional outbox from Postgres to Kafka, in order per key,\n" +
			"and confirms them to Postgres only after Kafka has them.",
		SilenceUsage:     true,
		SilenceErrors:    true,
		PersistentPreRun: func(*cobra.Command, []string) { a.began = true },
		RunE:             func(c *cobra.Command, _ []string) error { return c.Help() },
		Args:             cobra.NoArgs,
	}
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(a.runCommand(), a.demoCommand(), a.setupCommand(), a.configCommand(), a.versionCommand())
	return root
}
