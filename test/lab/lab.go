package lab

import (
	"context"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-relay/cdc-relay/internal/devenv"
	"github.com/cdc-relay/cdc-relay/internal/devenv/envtest"
	"github.com/cdc-relay/cdc-relay/test/oracle"
	"github.com/cdc-relay/cdc-relay/wal"
)

// Partitions is the size of a lab's topic.
const Partitions = 12

// Lab is a database with the reference outbox, a topic, and relays between them.
type Lab struct {
	t       testing.TB
	URL     string // of the database, for a superuser
	Brokers []string
	Topic   string
	Slot    string // unique in the server, as slots must be
	// RelayURL and RelayBrokers are what relays are given: the same, or a proxy's.
	RelayURL     string
	RelayBrokers []string
	// Logs is a folder for the relays' logs. Where it is empty a failed test prints them.
	Logs string

	kafka *kgo.Client // for questions about the topic
	lives int         // relays started so far
}

// New makes a database on the server, the tables by the binary's own setup, and a topic.
func New(t testing.TB, pg *devenv.Postgres, brokers []string) *Lab {
	t.Helper()
	l := &Lab{t: t, URL: envtest.DatabaseOn(t, pg), Brokers: brokers, Topic: envtest.Topic(t, brokers, Partitions)}
	l.RelayURL, l.RelayBrokers = l.URL, brokers
	var err error
	if l.kafka, err = kgo.NewClient(kgo.SeedBrokers(brokers...)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.kafka.Close)
	l.Slot = "relay_" + l.One("current_database()")
	cmd := exec.Command(Binary(t), "setup", "--database-url", l.URL)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("cdc-relay setup: %v\n%s", err, out)
	}
	return l
}

// Start runs a relay.
func (l *Lab) Start(args ...string) *Process {
	l.t.Helper()
	env := []string{"DATABASE_URL=" + l.RelayURL, "KAFKA_BROKERS=" + strings.Join(l.RelayBrokers, ",")}
	l.lives++
	return l.start(Binary(l.t), env, append([]string{"run", "--publication", "outbox", "--topic", l.Topic, "--slot", l.Slot, "--admin-listen", "127.0.0.1:0", "--log-format", "json"}, args...)...)
}

// Conn opens a connection to the lab's database; the test closes it.
func (l *Lab) Conn() *pgx.Conn {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := pgx.Connect(ctx, l.URL)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// Exec runs SQL on a connection of its own, in autocommit.
func (l *Lab) Exec(sql string, args ...any) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c := l.Conn()
	defer c.Close(ctx)
	if _, err := c.Exec(ctx, sql, args...); err != nil {
		l.t.Fatalf("%s: %v", sql, err)
	}
}

// One returns a single value as text; "" for NULL and for no row.
func (l *Lab) One(sql string, args ...any) string {
	l.t.Helper()
	v, err := l.Ask(sql, args...)
	if err != nil {
		l.t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// Ask is One where the server may be away.
func (l *Lab) Ask(sql string, args ...any) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := pgx.Connect(ctx, l.URL)
	if err != nil {
		return "", err
	}
	defer c.Close(ctx)
	var v *string
	err = c.QueryRow(ctx, "select ("+sql+")::text", args...).Scan(&v)
	if err != nil || v == nil {
		return "", err
	}
	return *v, nil
}

// Insert commits n events of the entities in one transaction: event i belongs to entity i modulo
// their number.
func (l *Lab) Insert(n int, entities ...string) {
	l.t.Helper()
	l.Exec(InsertSQL, n, entities)
}

// InsertSQL inserts $1 events over the entities $2.
const InsertSQL = `insert into outbox_events (entity_id, event_type, payload)
	select ($2::text[])[1 + i % array_length($2::text[], 1)], 'order.created', jsonb_build_object('n', i)
	from generate_series(0, $1::int - 1) i order by i`

// Confirmed is the slot's confirmed_flush_lsn.
func (l *Lab) Confirmed() wal.LSN {
	l.t.Helper()
	return l.lsn("select confirmed_flush_lsn from pg_replication_slots where slot_name = '" + l.Slot + "'")
}

// Stored is the position in the relay's own row.
func (l *Lab) Stored() wal.LSN {
	l.t.Helper()
	return l.lsn("select stored from cdc_relay.checkpoint where slot = '" + l.Slot + "'")
}

// CurrentLSN is where the server's log ends.
func (l *Lab) CurrentLSN() wal.LSN {
	l.t.Helper()
	return l.lsn("select pg_current_wal_lsn()")
}

func (l *Lab) lsn(sql string) wal.LSN {
	l.t.Helper()
	lsn, err := wal.ParseLSN(l.One(sql))
	if err != nil {
		l.t.Fatalf("%s: %v", sql, err)
	}
	return lsn
}

// WaitStored waits until the stored position has reached an LSN.
func (l *Lab) WaitStored(at wal.LSN) {
	l.t.Helper()
	var last string
	Until(l.t, "the stored position to reach "+at.String(), func(context.Context) (bool, error) {
		v, err := l.Ask("select stored from cdc_relay.checkpoint where slot = '" + l.Slot + "'")
		last = v
		if err != nil {
			last = err.Error()
			return false, nil
		}
		lsn, err := wal.ParseLSN(v)
		return err == nil && lsn >= at, nil
	}, &last)
}

// Verdict reads the whole topic and compares it with the outbox.
func (l *Lab) Verdict() oracle.Report {
	l.t.Helper()
	r, _ := l.Judge("outbox_events")
	return r
}

// judgeLimit bounds the reading of the table and the topic: some million events.
const judgeLimit = 10 * time.Minute

// Judge reads the whole topic, compares it with a table that holds the outbox's columns, and returns
// the records as well.
func (l *Lab) Judge(table string) (oracle.Report, []oracle.Record) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), judgeLimit)
	defer cancel()
	c := l.Conn()
	defer c.Close(ctx)
	want, err := oracle.FromTable(ctx, c, oracle.TableQuery{Table: table, Partitions: Partitions})
	if err != nil {
		l.t.Fatal(err)
	}
	got, err := oracle.ReadTopic(ctx, l.Brokers, l.Topic)
	if err != nil {
		l.t.Fatal(err)
	}
	return oracle.Check(want, got), got
}

// Settle waits until everything that is committed now has been published and stored. It inserts
// one event of the entity "sentinel", and waits for that too.
func (l *Lab) Settle() {
	l.t.Helper()
	ends := l.WaitEnds()
	at := l.CurrentLSN()
	l.Insert(1, "sentinel")
	id := l.One("select max(id) from outbox_events where entity_id = 'sentinel'")
	l.WaitStored(at)
	// The stored position may have come to lie between the two without an event.
	l.await(ends, "order.created:sentinel:"+id)
}

// Probe makes a second slot that nobody streams from, for CommitEnd to look through.
func (l *Lab) Probe() {
	l.t.Helper()
	l.Exec("select pg_create_logical_replication_slot($1, 'pgoutput')", l.Slot+"_probe")
}

// CommitEnd is the end LSN of the last transaction with an event since Probe, from its Commit
// message: what has to be confirmed once the transaction is published.
func (l *Lab) CommitEnd() wal.LSN {
	l.t.Helper()
	// In a Commit message: letter, flags, commit LSN, end LSN, time.
	text := l.One(`select encode(substr(data, 11, 8), 'hex')
		from pg_logical_slot_peek_binary_changes($1, null, null, 'proto_version', '1', 'publication_names', 'outbox')
		where get_byte(data, 0) = ascii('C') order by lsn desc limit 1`, l.Slot+"_probe")
	lsn, err := strconv.ParseUint(text, 16, 64)
	if err != nil {
		l.t.Fatalf("end of the last commit: %v", err)
	}
	return wal.LSN(lsn)
}
