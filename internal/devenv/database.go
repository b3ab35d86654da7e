package devenv

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"
)

// CreateDatabase makes a database on the server at a superuser's URL and returns its URL.
func CreateDatabase(ctx context.Context, server, name string) (string, error) {
	u, err := url.Parse(server)
	if err != nil || u.Host == "" {
		return "", errors.New("make a database: the server's address is no postgres:// URL") // it may hold a password
	}
	err = administrate(ctx, server, func(c *pgx.Conn) error {
		_, err := c.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize())
		return err
	})
	if err != nil {
		return "", fmt.Errorf("make database %s: %w", name, err)
	}
	u.Path = "/" + name
	return u.String(), nil
}

// DropDatabase removes a database with its replication slots and whoever is connected to it.
func DropDatabase(ctx context.Context, server, name string) error {
	err := administrate(ctx, server, func(c *pgx.Conn) error { return drop(ctx, c, name) })
	if err != nil {
		return fmt.Errorf("drop database %s: %w", name, err)
	}
	return nil
}

func administrate(ctx context.Context, server string, fn func(*pgx.Conn) error) error {
	c, err := pgx.Connect(ctx, server)
	if err != nil {
		return err
	}
	return errors.Join(fn(c), c.Close(ctx))
}

// drop removes a database. A slot can't be dropped while a walsender holds it, and holds the
// database itself, so walsenders are ended until none comes back.
func drop(ctx context.Context, c *pgx.Conn, name string) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := c.Exec(ctx, "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = $1 AND active", name); err != nil {
			return err
		}
		_, err := c.Exec(ctx, "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = $1 AND NOT active", name)
		if err == nil {
			_, err = c.Exec(ctx, "DROP DATABASE "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)")
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (%w)", err, context.Cause(ctx))
		case <-tick.C:
		}
	}
}
