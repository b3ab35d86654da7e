package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/cdc-relay/cdc-relay/internal/devenv"
	"github.com/cdc-relay/cdc-relay/sql"
)

// environment is where the demo plays: a database with the schema, a broker with a topic,
// and a folder for what is written.
type environment struct {
	folder *devenv.Folder

	url      string // of the demo's database
	database string // for people
	brokers  []string
	broker   string // for people
	topic    string

	undo []func() error // what close does, last one first
}

// closeLimit bounds each step of the cleaning up.
const closeLimit = 30 * time.Second

// open starts or connects to the servers and makes the schema and the topic. On an error
// nothing is left.
func open(ctx context.Context, o Options, c *console) (*environment, error) {
	folder, err := devenv.NewFolder("")
	if err != nil {
		return nil, err
	}
	e := &environment{folder: folder, topic: "orders"}
	err = e.start(ctx, o, c)
	if err == nil {
		err = e.prepare(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, e.close())
	}
	return e, nil
}

// close ends and removes everything.
func (e *environment) close() error {
	var errs []error
	for i := len(e.undo) - 1; i >= 0; i-- {
		errs = append(errs, e.undo[i]())
	}
	e.undo = nil
	return errors.Join(append(errs, e.folder.Remove())...)
}

// later remembers what close has to do; it is bounded, and not by the demo's context, which
// may have ended.
func (e *environment) later(undo func(context.Context) error) {
	e.undo = append(e.undo, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
		defer cancel()
		return undo(ctx)
	})
}

// start brings both servers up side by side: each may have to be downloaded.
func (e *environment) start(ctx context.Context, o Options, c *console) error {
	var postgres *devenv.Postgres
	var broker devenv.Broker
	both, starting := errgroup.WithContext(ctx)
	both.Go(func() (err error) {
		t := c.track("Postgres", 0)
		defer t.done()
		postgres, err = startPostgres(starting, o, e.folder.Path(), t.text)
		return err
	})
	both.Go(func() (err error) {
		t := c.track("broker", 0)
		defer t.done()
		broker, err = startBroker(starting, o, e.folder.Path(), c, t.text)
		return err
	})
	err := both.Wait()
	if postgres != nil {
		e.later(func(context.Context) error { return postgres.Close() })
		e.url, e.database = postgres.URL(), fmt.Sprintf("%s, %s", postgres.Version(), postgres.Origin())
	}
	if broker != nil {
		e.later(func(context.Context) error { return broker.Close() })
		e.brokers, e.broker = broker.Brokers(), describe(broker)
	}
	if err != nil {
		return err
	}
	if o.DatabaseURL != "" {
		if err := e.ownDatabase(ctx, o.DatabaseURL); err != nil {
			return err
		}
	}
	if len(o.KafkaBrokers) > 0 {
		e.topic = "cdc-relay-demo-" + suffix()
	}
	return nil
}

func suffix() string { return strings.ToLower(rand.Text()[:8]) }

// ownDatabase makes a database on somebody's server, to be dropped at the end.
func (e *environment) ownDatabase(ctx context.Context, server string) error {
	name := "cdc_relay_demo_" + suffix()
	url, err := devenv.CreateDatabase(ctx, server, name)
	if err != nil {
		return err
	}
	e.url = url
	e.later(func(ctx context.Context) error { return devenv.DropDatabase(ctx, server, name) })
	return nil
}

func startPostgres(ctx context.Context, o Options, dir string, progress func(string)) (*devenv.Postgres, error) {
	if o.DatabaseURL != "" {
		return devenv.ConnectPostgres(ctx, o.DatabaseURL)
	}
	return devenv.StartPostgres(ctx, devenv.PostgresOptions{Dir: dir, Progress: progress})
}

// startBroker starts a real Kafka unless the embedded broker is asked for, or nothing is and
// no Kafka can be started.
func startBroker(ctx context.Context, o Options, dir string, c *console, progress func(string)) (devenv.Broker, error) {
	if len(o.KafkaBrokers) > 0 {
		k, err := devenv.ConnectKafka(ctx, o.KafkaBrokers)
		if err != nil {
			return nil, err // a nil *Kafka is no nil Broker
		}
		return k, nil
	}
	if o.Broker != "embedded" {
		k, err := devenv.StartKafka(ctx, devenv.KafkaOptions{Dir: dir, Progress: progress})
		if err == nil {
			return k, nil
		}
		if o.Broker == "kafka" || ctx.Err() != nil {
			return nil, err
		}
		c.line("%v", err)
		c.line("so a broker in this process is used, which speaks Kafka's protocol and keeps records in memory")
	}
	b, err := devenv.StartEmbedded()
	if err != nil {
		return nil, err
	}
	return b, nil
}

func describe(b devenv.Broker) string {
	switch {
	case b.Kind() == "embedded":
		return "embedded, " + b.Version()
	case b.Version() == "":
		return "Kafka at " + join(b.Brokers())
	}
	return "Kafka " + b.Version()
}

func join(list []string) string { return strings.Join(list, ",") }

// ordersDDL is the state of the order service. The version counts its changes, so it also
// says in which order the events of an order were committed.
const ordersDDL = `CREATE TABLE orders (
	id      text PRIMARY KEY,
	status  text NOT NULL,
	version integer NOT NULL,
	total   integer NOT NULL
)`

// prepare makes the outbox and the relay's schema as setup does, the service's own table and
// the topic.
func (e *environment) prepare(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, e.url)
	if err != nil {
		return fmt.Errorf("connect to the demo's database: %w", err)
	}
	_, err = sql.Setup(ctx, conn, sql.Options{})
	if err == nil {
		_, err = conn.Exec(ctx, ordersDDL)
	}
	if err = errors.Join(err, conn.Close(ctx)); err != nil {
		return fmt.Errorf("prepare the demo's database: %w", err)
	}
	if err := devenv.CreateTopic(ctx, e.brokers, e.topic, partitions, nil); err != nil {
		return err
	}
	e.later(func(ctx context.Context) error {
		if e.topic == "orders" {
			return nil // it goes with the broker
		}
		return devenv.DeleteTopic(ctx, e.brokers, e.topic)
	})
	return nil
}
