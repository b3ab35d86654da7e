package main

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/cdc-relay/cdc-relay/internal/config"
)

func (a *app) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show or check the configuration",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	cmd.AddCommand(a.configShowCommand(), a.configCheckCommand())
	return cmd
}

func (a *app) configShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Print the configuration in force, with where each value comes from and without secrets",
		Args:  cobra.NoArgs,
	}
	keys := a.keyFlags(cmd)
	form := a.outputFlag(cmd, "yaml")
	cmd.RunE = func(*cobra.Command, []string) error {
		cfg, err := keys.load()
		if err != nil {
			return err
		}
		if *form == "json" {
			return a.json(cfg.Settings())
		}
		return cfg.WriteYAML(a.out)
	}
	return cmd
}

func (a *app) configCheckCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Say all that is wrong with the configuration, without connecting to anything",
		Args:  cobra.NoArgs,
	}
	keys := a.keyFlags(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		if _, err := keys.load(config.RunNeeds()...); err != nil {
			return err
		}
		return write(a.out, "the configuration is complete and valid\n")
	}
	return cmd
}

// json prints v for machines.
func (a *app) json(v any) error {
	enc := json.NewEncoder(a.out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
