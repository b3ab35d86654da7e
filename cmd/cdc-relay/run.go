package main

import (
	"github.com/spf13/cobra"

	"github.com/cdc-relay/cdc-relay/internal/config"
)

func (a *app) runCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Publish the outbox's events until it is stopped",
		Long: "Publishes the outbox's events until it is stopped.\n\n" +
			"The first SIGINT or SIGTERM finishes what is in flight, within --shutdown-drain, and exits with 0.\n" +
			"The second one exits with 1 at once; what was in flight is published again at the next start.",
		Example: "  DATABASE_URL=postgres://relay@db/shop KAFKA_BROKERS=kafka:9092 cdc-relay run --publication outbox --topic orders",
		Args:    cobra.NoArgs,
	}
	keys := a.keyFlags(cmd)
	exitOnHalt := cmd.Flags().Bool("exit-on-halt", false, "exit with 5 where an event can't be published, instead of staying up and trying again")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := keys.load(config.RunNeeds()...)
		if err != nil {
			return err
		}
		ctx, stop := a.signals(cmd.Context())
		defer stop()
		return runRelay(ctx, cfg, *exitOnHalt, newLogger(a.err, cfg.Log))
	}
	return cmd
}
