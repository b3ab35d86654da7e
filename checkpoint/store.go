package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// StoreConfig is what a Store needs. Slot, Owner, and Conn or Config have no default.
type StoreConfig struct {
	Conn *pgx.ConnConfig // where the tables are: the database of the outbox
	// Config, where not nil, is asked in place of Conn for each connection anew: passwords expire.
	Config func(context.Context) (*pgx.ConnConfig, error)
	Schema string // default cdc_relay
	Slot   string
	Owner  Owner
	// Timeout bounds each call, connecting included; default 10 s. A call whose ctx ends
	// earlier ends with it.
	Timeout time.Duration
}

// schemaVersion is the version of the tables that this package reads and writes.
const schemaVersion = 1

const (
	defaultSchema  = "cdc_relay"
	defaultTimeout = 10 * time.Second
)

// Store keeps a slot's row, the lineages and the contracts in Postgres, over one connection
// of its own that is made when it is needed and again when it is lost. It may be used by any
// goroutines; calls come one after the other.
//
// Its errors: *SetupError where tables or rights are missing, ErrOwnerLost and ErrChanged as the
// methods say, what Postgres or the network said otherwise.
type Store struct {
	cfg    StoreConfig
	schema string // quoted

	busy chan struct{} // holds one token while a call runs, and guards conn
	conn *pgx.Conn     // nil before the first call and after a loss
	role atomic.Value  // string: the quoted name of whom conn belongs to, for messages
}

// NewStore returns a Store. Nothing is connected yet.
func NewStore(cfg StoreConfig) *Store {
	if cfg.Schema == "" {
		cfg.Schema = defaultSchema
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultTimeout
	}
	if cfg.Config == nil {
		conn := cfg.Conn
		cfg.Config = func(context.Context) (*pgx.ConnConfig, error) { return conn, nil }
	}
	return &Store{cfg: cfg, schema: pgx.Identifier{cfg.Schema}.Sanitize(), busy: make(chan struct{}, 1)}
}

// Close ends the connection. The Store can be used again afterwards.
func (s *Store) Close(ctx context.Context) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	if s.conn == nil {
		return nil
	}
	err := s.conn.Close(ctx)
	s.conn = nil
	if err != nil {
		return fmt.Errorf("close the connection of the stored position: %w", err)
	}
	return nil
}

// Do lends the connection to fn, which keeps nothing of it. Where the connection turns out to be
// lost, fn is called once more on a new one: it must bear that.
func (s *Store) Do(ctx context.Context, fn func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	used := s.conn != nil && !s.conn.IsClosed()
	err := s.try(ctx, fn)
	if err != nil && used && s.conn.IsClosed() && ctx.Err() == nil {
		// It may have been dead for long: the server was restarted, or a firewall forgot it.
		err = s.try(ctx, fn)
	}
	return err
}

func (s *Store) try(ctx context.Context, fn func(context.Context, *pgx.Conn) error) error {
	if s.conn == nil || s.conn.IsClosed() {
		conn, err := s.connect(ctx)
		if err != nil {
			return err
		}
		s.conn = conn
	}
	return fn(ctx, s.conn)
}

func (s *Store) connect(ctx context.Context) (*pgx.Conn, error) {
	config, err := s.cfg.Config(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to the stored position: %w", err)
	}
	s.role.Store(pgx.Identifier{config.User}.Sanitize())
	conn, err := pgx.ConnectConfig(ctx, s.settings(config))
	if err != nil {
		return nil, fmt.Errorf("connect to the stored position: %w", err)
	}
	if err := s.checkVersion(ctx, conn); err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	return conn, nil
}

// settings are those of a connection, with the limits that the server keeps as well, so that
// nothing of ours holds a lock for longer.
func (s *Store) settings(config *pgx.ConnConfig) *pgx.ConnConfig {
	config = config.Copy()
	params := map[string]string{"application_name": "cdc-relay"}
	maps.Copy(params, config.RuntimeParams)
	ms := strconv.FormatInt(s.cfg.Timeout.Milliseconds(), 10)
	params["statement_timeout"], params["lock_timeout"], params["idle_in_transaction_session_timeout"] = ms, ms, ms
	config.RuntimeParams = params
	return config
}

// checkVersion refuses tables of another version before anything is read from them.
func (s *Store) checkVersion(ctx context.Context, conn *pgx.Conn) error {
	what := "read the version of schema " + s.schema
	var version int
	err := conn.QueryRow(ctx, `select version from `+s.schema+`.meta`).Scan(&version)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return &SetupError{Cause: what + ": table meta is empty", Remedy: remedySetup}
	case err != nil:
		return explain(what, s.grant("select", "meta"), err)
	case version != schemaVersion:
		return &SetupError{
			Cause:  fmt.Sprintf("%s: it is %d, and this cdc-relay needs %d", what, version, schemaVersion),
			Remedy: "use the version of cdc-relay that belongs to these tables, or upgrade them with its setup",
		}
	}
	return nil
}

func (s *Store) lock(ctx context.Context) error {
	select {
	case s.busy <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the connection of the stored position: %w", context.Cause(ctx))
	}
}

func (s *Store) unlock() { <-s.busy }

// grant is the statement that gives rights on one of the tables to the role that lacks them.
func (s *Store) grant(rights, table string) string {
	role, _ := s.role.Load().(string) // there is one wherever a statement was refused
	return fmt.Sprintf("grant usage on schema %s to %s; grant %s on %s.%s to %s", s.schema, role, rights, s.schema, table, role)
}

// explain is the error of a statement on one of the tables.
func (s *Store) explain(doing, table string, err error) error {
	return explain(fmt.Sprintf("%s slot %q", doing, s.cfg.Slot), s.grant("select, insert, update, delete", table), err)
}
