package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/devenv"
	"github.com/cdc-relay/cdc-relay/internal/devenv/envtest"
)

// publishing is a relay that is ready, on a broker of its own, and its admin address.
func publishing(t *testing.T, s *source, args ...string) (p *relayProcess, address string, broker *devenv.Embedded) {
	t.Helper()
	broker = envtest.Embedded(t)
	topic := envtest.Topic(t, broker.Brokers(), 3)
	p = startRelay(t, []string{"DATABASE_URL=" + s.url, "KAFKA_BROKERS=" + strings.Join(broker.Brokers(), ",")},
		append([]string{"--topic", topic}, args...)...)
	address = p.address()
	p.until(address, "/readyz", func(code int, _ string) bool { return code == 200 })
	return p, address, broker
}

// Rows that are older than the slot are not in the stream. Whoever moves an outbox that is in use to
// this relay has to be told.
func TestOlderRowsAreSaid(t *testing.T) {
	s := newSource(t)
	for range 3 {
		s.exec(insert)
	}
	p, _, _ := publishing(t, s)
	if !regexp.MustCompile(`"level":"warn".*"rows":3.*older than the slot`).MatchString(p.log.text()) {
		t.Errorf("it is ready and has not warned of 3 rows that it never publishes:\n%s", p.log.text())
	}
}

// An event that can't be published ends a relay with 5 where that was asked for.
func TestExitOnHalt(t *testing.T) {
	s := newSource(t)
	p, _, _ := publishing(t, s, "--exit-on-halt")
	s.exec("alter table public.outbox_events alter event_type drop not null")
	s.exec("insert into public.outbox_events (entity_id, payload) values ('A-1', '{}')")
	p.await("halted")
	select {
	case <-p.done:
	case <-time.After(20 * time.Second):
		t.Fatalf("it halts and doesn't end:\n%s", p.log.text())
	}
	if code := p.end(); code != 5 || !strings.Contains(p.log.text(), "event_type") {
		t.Errorf("exit code %d, want 5 and the column that is missing:\n%s", code, p.log.text())
	}
}

// While the broker takes nothing, no more is in flight than kafka.buffer_bytes allows, and one event of
// any size beside nothing else.
func TestBufferBoundsWhatIsInFlight(t *testing.T) {
	const buffer, events, size = 256 << 10, 600, 4000
	s := newSource(t)
	p, address, broker := publishing(t, s, "--kafka-buffer-bytes", strconv.Itoa(buffer), "--shutdown-drain", "0s")
	holdProduce(broker.Cluster())
	s.exec(`insert into public.outbox_events (entity_id, event_type, payload)
		select 'A-1', 'order', to_jsonb(repeat('x', $1)) from generate_series(1, $2)`, size, events)
	gauge := regexp.MustCompile(`(?m)^cdc_relay_inflight_bytes ([0-9.e+]+)$`)
	var most float64
	p.until(address, "/metrics", func(_ int, body string) bool {
		n, err := strconv.ParseFloat(gauge.FindStringSubmatch(body)[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, n)
		return most > buffer-2*size
	})
	if most > buffer {
		t.Errorf("%.0f bytes in flight, the buffer has %d", most, buffer)
	}
	p.signal(syscall.SIGTERM)
	left := regexp.MustCompile(`at most ([0-9]+) events`)
	if code := p.end(); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if m := left.FindStringSubmatch(p.log.text()); m == nil {
		t.Errorf("it doesn't say how much it leaves:\n%s", p.log.text())
	} else if n, err := strconv.Atoi(m[1]); err != nil || n == 0 || n*size > buffer {
		t.Errorf("%s events of %d bytes were in flight, the buffer has %d", m[1], size, buffer)
	}
}

// A stop waits for what is in flight, as long as the configuration says. A deploy in a short outage of Kafka
// repeats nothing.
func TestStopWaitsForAcks(t *testing.T) {
	s := newSource(t)
	p, address, broker := publishing(t, s, "--shutdown-drain", "1m")
	release := holdProduce(broker.Cluster())
	s.exec(insert)
	p.until(address, "/metrics", func(_ int, body string) bool { return strings.Contains(body, "cdc_relay_inflight_events 1\n") })
	p.signal(syscall.SIGTERM)
	p.until(address, "/readyz?verbose", func(_ int, body string) bool { return strings.Contains(body, `"stopping"`) })
	release()
	if code := p.end(); code != 0 {
		t.Errorf("exit code %d, want 0: there was time for the ack\n%s", code, p.log.text())
	}
}

// Two relays start for the first time. While a transaction is open the slot can't be finished: one of them makes
// it, the other one finds it in the making. Then one streams and the other one stands by.
func TestTwoFirstStarts(t *testing.T) {
	for _, held := range []bool{true, false} {
		t.Run(fmt.Sprintf("open transaction %v", held), func(t *testing.T) {
			s := newSource(t)
			broker := envtest.Embedded(t)
			topic := envtest.Topic(t, broker.Brokers(), 3)
			if held {
				s.exec("begin; create table public.held (a int)")
			}
			var relays []*relayProcess
			for range 2 {
				relays = append(relays, startRelay(t, []string{"DATABASE_URL=" + s.url, "KAFKA_BROKERS=" + strings.Join(broker.Brokers(), ",")}, "--topic", topic))
			}
			if held {
				untilOne(t, relays, "standby")
				waitFor(t, s, "select count(*) = 1 from pg_replication_slots where database = current_database() and confirmed_flush_lsn is null")
				s.exec("commit")
			}
			first := untilOne(t, relays, "streaming")
			untilOne(t, slices.DeleteFunc(slices.Clone(relays), func(p *relayProcess) bool { return p == first }), "standby")
			for _, p := range relays {
				p.signal(syscall.SIGTERM)
			}
			for _, p := range relays {
				if code := p.end(); code != 0 {
					t.Errorf("exit code %d:\n%s", code, p.log.text())
				}
			}
		})
	}
}

// untilOne waits until one of the relays is in a phase, and all of them are up.
func untilOne(t *testing.T, relays []*relayProcess, phase string) (found *relayProcess) {
	t.Helper()
	first := relays[0]
	first.until(first.address(), "/livez", func(int, string) bool {
		for _, p := range relays {
			if _, body := p.get(p.address(), "/readyz?verbose"); strings.Contains(body, `"phase":"`+phase+`"`) {
				found = p
			}
		}
		return found != nil
	})
	return found
}
