package crash

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/internal/devenv"
	"github.com/cdc-relay/cdc-relay/internal/devenv/envtest"
	"github.com/cdc-relay/cdc-relay/test/lab"
	"github.com/cdc-relay/cdc-relay/test/proxy"
	"github.com/cdc-relay/cdc-relay/wal"
)

// world is a relay between real servers, which it reaches only through our proxies. The writers and
// the oracle go straight.
type world struct {
	*lab.Lab
	t          *testing.T
	postgres   *devenv.Postgres
	broker     *devenv.Kafka
	toPostgres *proxy.Proxy
	toBroker   *proxy.Proxy

	relay *lab.Process // the one that publishes
	aside *lab.Process // a frozen one that another has taken over from; mostly nil
	args  []string     // of each relay
	lock  *pgx.Conn    // that holds the lock on the row of the position
	// born is told of each relay that starts; nil is nobody.
	born func(*lab.Process)
	// calm says that everything was well before the fault and that nothing else strikes meanwhile.
	calm bool
	// misses counts the blows that found nothing to strike.
	misses int
}

// newWorld starts the servers, the proxies and a relay. A walsender that hears nothing ends after
// senderTimeout.
func newWorld(t *testing.T, senderTimeout time.Duration, logs string, born func(*lab.Process), args ...string) *world {
	t.Helper()
	w := &world{t: t, calm: true, born: born, args: args}
	w.postgres = envtest.OwnPostgres(t, devenv.PostgresOptions{Settings: map[string]string{
		"wal_sender_timeout": fmt.Sprintf("%dms", senderTimeout.Milliseconds()),
		// A shutdown waits that long for a connection that never says who it is, as one does whose wire
		// is stalled.
		"authentication_timeout": "10s",
	}})
	w.broker = envtest.OwnKafka(t, devenv.KafkaOptions{Via: func(target string) (string, error) {
		w.toBroker = w.proxy(target)
		return w.toBroker.Addr(), nil
	}})
	w.Lab = lab.New(t, w.postgres, w.broker.Brokers())
	w.Logs = logs
	direct, err := url.Parse(w.URL)
	if err != nil {
		t.Fatal(err)
	}
	w.toPostgres = w.proxy(direct.Host)
	direct.Host = w.toPostgres.Addr()
	w.RelayURL, w.RelayBrokers = direct.String(), []string{w.toBroker.Addr()}
	w.start()
	w.relay.WaitReady()
	return w
}

func (w *world) proxy(target string) *proxy.Proxy {
	w.t.Helper()
	p, err := proxy.Listen(target)
	w.must(err)
	w.t.Cleanup(func() {
		if err := p.Close(); err != nil {
			w.t.Error(err)
		}
	})
	return p
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// spawn runs a relay beside the one that publishes.
func (w *world) spawn() *lab.Process {
	w.t.Helper()
	p := w.Start(w.args...)
	if w.born != nil {
		w.born(p)
	}
	return p
}

// start runs the relay that publishes.
func (w *world) start() {
	w.t.Helper()
	w.relay = w.spawn()
}

// stop ends a relay with SIGTERM. It ends with 0, or, where something else was going on, with 1 for
// events that it had to leave.
func (w *world) stop(p *lab.Process) {
	w.t.Helper()
	code := p.Stop()
	if code != 0 && (w.calm || code != 1) {
		w.t.Fatalf("clean stop: exit code %d; calm: %v\n%s", code, w.calm, p.Log())
	}
}

// stopLimit is what a fast shutdown of Postgres may take with a relay that lives and isn't cut off.
const stopLimit = 15 * time.Second

// shutDown stops Postgres. A fast shutdown waits for the walsender, whose client may be cut off; the
// server then gives it up by wal_sender_timeout.
func (w *world) shutDown(mode devenv.StopMode) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	began := time.Now()
	w.must(w.postgres.Stop(ctx, mode))
	if d := time.Since(began); w.calm && d > stopLimit {
		w.t.Errorf("the shutdown of Postgres took %s", d)
	}
	w.must(w.toPostgres.Refuse(true))
}

func (w *world) startPostgres() {
	w.t.Helper()
	w.must(w.postgres.Start(context.Background()))
	w.must(w.toPostgres.Refuse(false))
}

func (w *world) startBroker() {
	w.t.Helper()
	w.must(w.broker.Start(context.Background()))
	w.must(w.toBroker.Refuse(false))
}

// terminate ends the relay's connections of a kind from within Postgres.
func (w *world) terminate(backend string) {
	w.t.Helper()
	ended, err := strconv.Atoi(w.One(`select count(*) filter (where pg_terminate_backend(pid)) from pg_stat_activity
		where datname = current_database() and application_name = 'cdc-relay' and backend_type = $1`, backend))
	w.must(err)
	w.must(w.hit(ended, "pg_terminate_backend of a "+backend))
}

// cut resets the connections through a proxy.
func (w *world) cut(p *proxy.Proxy) {
	w.t.Helper()
	w.must(w.hit(p.Cut(), "the cut of a wire"))
}

// freeze holds what goes through a proxy.
func (w *world) freeze(p *proxy.Proxy, directions ...proxy.Direction) {
	w.t.Helper()
	w.must(w.hit(p.Freeze(directions...), "the freeze of a wire"))
}

// hit says how many connections a blow has struck. When all was well there must be one; in the recovery
// from another fault there may be none, and then the blow doesn't count.
func (w *world) hit(n int, what string) error {
	if n > 0 {
		return nil
	}
	if w.calm {
		return fmt.Errorf("%s struck no connection, so the fault proves nothing", what)
	}
	w.misses++
	return nil
}

// lockRow keeps the relay from writing its position until the connection is closed.
func (w *world) lockRow() {
	w.t.Helper()
	w.lock = w.Conn()
	_, err := w.lock.Exec(context.Background(), "begin; select from cdc_relay.checkpoint for update")
	w.must(err)
}

// recovered waits until all that was committed before the call is published and stored, and the relay
// says that it is ready. It returns the time to the first new record.
func (w *world) recovered() time.Duration {
	w.t.Helper()
	began := time.Now()
	before := lab.Count(w.WaitEnds())
	at := w.CurrentLSN()
	w.WaitRecords(before + 1)
	first := time.Since(began)
	w.WaitStored(at)
	w.truthful()
	return first
}

// truthful fails unless the relay says that it is ready, streams, and has stored no more than its row
// says.
func (w *world) truthful() {
	w.t.Helper()
	w.alive()
	w.relay.WaitHTTP("/readyz", http.StatusOK)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	s, err := w.relay.Status(ctx)
	w.must(err)
	said, err := wal.ParseLSN(s.StoredLSN)
	w.must(err)
	if stored := w.Stored(); said > stored {
		w.t.Errorf("the relay says that it has stored %s, its row says %s", said, stored)
	}
	if !s.Ready || s.Phase != "streaming" {
		w.t.Errorf("recovered, and /readyz says %+v", s)
	}
}

// alive fails when the relay has ended by itself.
func (w *world) alive() {
	w.t.Helper()
	if code, ended := w.relay.Ended(); ended {
		w.t.Fatalf("the relay has ended by itself with exit code %d:\n%s", code, w.relay.Log())
	}
}

// hold lets a fault last.
func hold(d time.Duration) { <-time.After(d) }
