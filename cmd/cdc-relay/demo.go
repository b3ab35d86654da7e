package main

import (
	"errors"

	"github.com/spf13/cobra"
)

func (a *app) demoCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run an order service, a database, a broker and a relay that gets killed, and check the outcome",
		Args:  cobra.NoArgs,
	}
	cmd.RunE = func(*cobra.Command, []string) error {
		return errors.New("demo: not wired yet")
	}
	return cmd
}
