package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-relay/cdc-relay/internal/devenv"
)

// relay is the child process that publishes.
type relay struct {
	exe string
	env *environment

	starts int
	proc   *devenv.Process
}

// start runs the relay as a user would, with a log of its own.
func (r *relay) start() error {
	r.starts++
	cmd := exec.Command(r.exe, "run", "--publication", publication, "--topic", r.env.topic) //nolint:noctx // it is ended by signals, in an order of its own
	cmd.Dir = r.env.folder.Path()
	cmd.Env = append(inherited(),
		"DATABASE_URL="+r.env.url,
		"KAFKA_BROKERS="+join(r.env.brokers),
		"CDC_RELAY_ADMIN_LISTEN=127.0.0.1:0")
	var err error
	r.proc, err = devenv.StartProcess(cmd, filepath.Join(r.env.folder.Path(), fmt.Sprintf("relay-%d.log", r.starts)), syscall.SIGKILL)
	if err != nil {
		return fmt.Errorf("start the relay: %w", err)
	}
	return nil
}

// inherited is the part of our environment that the relay gets: nothing that configures it
// for other servers.
func inherited() []string {
	var env []string
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if strings.HasPrefix(name, "CDC_RELAY_") || strings.HasPrefix(name, "PG") ||
			name == "DATABASE_URL" || name == "KAFKA_BROKERS" || name == "PARTITION_COUNT" {
			continue
		}
		env = append(env, v)
	}
	return env
}

// died returns an error with the relay's last words when it has ended.
func (r *relay) died() error {
	if r.proc.Alive() {
		return nil
	}
	return fmt.Errorf("the relay ended by itself (exit code %d); its last lines:%s", r.proc.ExitCode(), r.proc.Tail())
}

// kill ends the relay with SIGKILL.
func (r *relay) kill() error {
	if err := r.proc.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-r.proc.Done()
	return nil
}

// stopLimit is more than the relay takes for its drain.
const stopLimit = 30 * time.Second

// stop asks the relay to stop, and wants it to do so cleanly.
func (r *relay) stop(ctx context.Context) error {
	if err := r.proc.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	if err := r.proc.Wait(ctx); err != nil {
		return fmt.Errorf("stop the relay: %w; its last lines:%s", err, r.proc.Tail())
	}
	if code := r.proc.ExitCode(); code != 0 {
		return fmt.Errorf("the relay's clean stop ended with exit code %d; its last lines:%s", code, r.proc.Tail())
	}
	return nil
}

// slot returns the name of the database's slot once the relay has made it. From then on each
// commit is the relay's to publish.
func slot(ctx context.Context, conn *pgx.Conn) (name string, ok bool, err error) {
	err = conn.QueryRow(ctx, `SELECT coalesce(min(slot_name), '') FROM pg_replication_slots
		WHERE database = current_database() AND NOT temporary AND confirmed_flush_lsn IS NOT NULL`).Scan(&name)
	if err != nil {
		return "", false, fmt.Errorf("look for the relay's slot: %w", err)
	}
	return name, name != "", nil
}

// position is the end of the server's WAL.
func position(ctx context.Context, conn *pgx.Conn) (lsn string, err error) {
	err = conn.QueryRow(ctx, `SELECT pg_current_wal_insert_lsn()::text`).Scan(&lsn)
	if err != nil {
		return "", fmt.Errorf("ask for the position: %w", err)
	}
	return lsn, nil
}

// objectInUse is what Postgres says while the killed relay's walsender is still there.
const objectInUse = "55006"

// unconfirmed counts the events that were committed before the position and are not covered
// by what a relay stored, which is not running now: those it would lose if it went by what
// it read, and has to publish again where it did. It also returns the stored position.
func unconfirmed(ctx context.Context, conn *pgx.Conn, slot, before string) (n int, stored string, err error) {
	// The changes of the slot as the relay would read them: B begins a transaction and holds
	// the LSN of its commit, I is an insert.
	const count = `
		WITH change AS (
			SELECT ordinality AS n, get_byte(data, 0) AS kind, encode(substring(data FROM 2 FOR 8), 'hex') AS hex
			FROM pg_logical_slot_peek_binary_changes($1, $2::pg_lsn, NULL, 'proto_version', '1', 'publication_names', $3) WITH ORDINALITY
		), located AS (
			SELECT kind, max(CASE WHEN kind = ascii('B') THEN (left(hex, 8) || '/' || right(hex, 8))::pg_lsn END) OVER (ORDER BY n) AS lsn
			FROM change
		)
		SELECT count(*) FROM located WHERE kind = ascii('I') AND lsn < $2::pg_lsn
			AND lsn >= $4::pg_lsn`
	err = conn.QueryRow(ctx, `SELECT coalesce(min(stored), '0/0')::text FROM cdc_relay.checkpoint WHERE slot = $1`, slot).Scan(&stored)
	if err != nil {
		return 0, "", fmt.Errorf("read what the relay has stored: %w", err)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := conn.QueryRow(ctx, count, slot, before, publication, stored).Scan(&n)
		if err == nil {
			return n, stored, nil
		}
		if pg := (*pgconn.PgError)(nil); !errors.As(err, &pg) || pg.Code != objectInUse {
			return 0, "", fmt.Errorf("count what was unconfirmed at the kill: %w", err)
		}
		select {
		case <-ctx.Done():
			return 0, "", fmt.Errorf("count what was unconfirmed at the kill: %w (%w)", err, context.Cause(ctx))
		case <-tick.C:
		}
	}
}
