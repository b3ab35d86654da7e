package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/sql"
)

func (a *app) setupCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "setup",
		Short: "Make the tables, the publication and the rights that a relay needs",
		Long: "Makes what is missing: the relay's own schema, the outbox table, the publication and the grants.\n" +
			"It makes no replication slot and no topic. It needs the rights of the database's owner; where\n" +
			"you don't have them, --print prints the SQL for somebody who does.",
		Example: "  DATABASE_URL=postgres://owner@db/shop cdc-relay setup --role relay\n" +
			"  cdc-relay setup --print --role relay | psql shop",
		Args: cobra.NoArgs,
	}
	keys := a.keyFlags(cmd, "postgres.url", "postgres.password_file", "postgres.schema", "publication", "outbox.tables")
	role := cmd.Flags().String("role", "", "role of the relay, to grant it what it needs")
	skip := cmd.Flags().Bool("skip-outbox", false, "don't make the outbox table: the application has its own")
	printOnly := cmd.Flags().Bool("print", false, "print the SQL and connect to nothing")
	form := a.outputFlag(cmd, "text")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		need := []string{"postgres.url"}
		if *printOnly {
			need = nil
		}
		cfg, err := keys.load(need...)
		if err != nil {
			return err
		}
		opts, err := setupOptions(cfg, *role, *skip)
		if err != nil {
			return err
		}
		if *printOnly {
			text, err := sql.Print(opts)
			if err != nil {
				return &usageError{cause: err}
			}
			return write(a.out, "%s", text)
		}
		ctx, stop := a.signals(cmd.Context())
		defer stop()
		rep, err := setUp(ctx, cfg, opts)
		if err != nil {
			return err
		}
		return a.printSetup(rep, *form)
	}
	return cmd
}

// setupOptions are the options for package sql, which takes a table as one dotted name.
func setupOptions(cfg config.Config, role string, skip bool) (sql.Options, error) {
	o := sql.Options{Schema: cfg.Postgres.Schema, Publication: cfg.Publication, Role: role, SkipOutbox: skip}
	if len(cfg.Outbox.Tables) > 0 {
		t := cfg.Outbox.Tables[0]
		if strings.Contains(t.Schema, ".") {
			return o, &usageError{cause: fmt.Errorf("setup can't make a table in a schema with a dot in its name: %s", t)}
		}
		o.Table = t.Schema + "." + t.Name
	}
	return o, nil
}

func setUp(ctx context.Context, cfg config.Config, opts sql.Options) (sql.Report, error) {
	dsn, err := cfg.Postgres.ConnString(ctx)
	if err != nil {
		return sql.Report{}, err
	}
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return sql.Report{}, fmt.Errorf("setup: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx)) // the transaction has ended either way
	return sql.Setup(ctx, conn, opts)
}

// printSetup says what was done.
func (a *app) printSetup(rep sql.Report, form output) error {
	if form == "json" {
		return a.json(map[string][]string{"made": orEmpty(rep.Made), "kept": orEmpty(rep.Kept), "warnings": orEmpty(rep.Warnings)})
	}
	for _, part := range []struct {
		word  string
		lines []string
	}{{"made", rep.Made}, {"kept", rep.Kept}, {"warning", rep.Warnings}} {
		for _, line := range part.lines {
			if err := write(a.out, "%-8s %s\n", part.word+":", line); err != nil {
				return err
			}
		}
	}
	return nil
}

// orEmpty prints as [] and not as null.
func orEmpty(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}
