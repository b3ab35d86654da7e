package main

import (
	"crypto/rand"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/internal/devenv"
	"github.com/cdc-relay/cdc-relay/internal/devenv/envtest"
)

// awkward is a password with everything that trips connection strings and shells.
const awkward = `p@ss:/?#[]%I\G {y'"£ `

func quoteLiteral(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// role makes a role of its own for the test, with a password.
func (s *source) role(attributes, password string) string {
	s.t.Helper()
	name := "relay_" + strings.ToLower(rand.Text()[:10])
	s.exec("create role " + name + " login " + attributes + " password " + quoteLiteral(password))
	s.t.Cleanup(func() {
		s.exec("drop owned by " + name)
		s.exec("drop role " + name)
	})
	return name
}

// The relay publishes with a password of all kinds of characters, given in each way; and the
// password is in none of its lines, not even at the finest level.
func TestAwkwardPasswordConnects(t *testing.T) {
	s := newSource(t)
	user := s.role("replication", awkward)
	got := runProcess(t, []string{"DATABASE_URL=" + s.url}, "setup", "--role", user)
	if got.code != 0 {
		t.Fatalf("setup: %+v", got)
	}
	path := filepath.Join(t.TempDir(), "pw")
	if err := os.WriteFile(path, []byte(awkward+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	broker := envtest.Embedded(t)
	for name, row := range map[string]struct {
		env, args []string
	}{
		"url":     {[]string{"DATABASE_URL=" + s.as(user, awkward)}, nil},
		"file":    {[]string{"DATABASE_URL=" + s.as(user, ""), "CDC_RELAY_POSTGRES_PASSWORD_FILE=" + path}, nil},
		"command": {[]string{"DATABASE_URL=" + s.as(user, ""), "CDC_RELAY_POSTGRES_PASSWORD_COMMAND=IFS= read -r pw < " + path + `; printf '%s' "$pw"`}, nil},
		"config": {nil, []string{"--config", file(t, "postgres: {url: "+quoteLiteral(s.as(user, ""))+
			", password_command: [/bin/sh, -c, 'printf %s \"$1\"', sh, "+quoteLiteral(awkward)+"]}")}},
	} {
		t.Run(name, func(t *testing.T) {
			topic := envtest.Topic(t, broker.Brokers(), 3)
			env := append(row.env, "KAFKA_BROKERS="+strings.Join(broker.Brokers(), ","))
			p := startRelay(t, env, append([]string{"--topic", topic}, row.args...)...)
			address := p.address()
			p.until(address, "/readyz", func(code int, _ string) bool { return code == 200 })
			s.exec(insert)
			p.until(address, "/metrics", func(_ int, body string) bool {
				return strings.Contains(body, `cdc_relay_events_published_total{topic="`+topic+`"} 1`)
			})
			p.signal(syscall.SIGTERM)
			if code := p.end(); code != 0 {
				t.Errorf("exit code %d:\n%s", code, p.log.text())
			}
			leaks(t, p.log.text())
		})
	}
}

// leaks looks for pieces of the password.
func leaks(t *testing.T, text string) {
	t.Helper()
	for _, piece := range []string{"p@ss", "p%40ss", `I\G`, `I\\G`, "I%5CG", "{y'", "£", "hunter2"} {
		if strings.Contains(text, piece) {
			t.Errorf("%q of the password is in\n%s", piece, text)
		}
	}
}

// What is missing or not allowed ends the relay with 2 and one message that names it.
func TestRunRefuses(t *testing.T) {
	s := newSource(t)
	broker := envtest.Embedded(t)
	topic := envtest.Topic(t, broker.Brokers(), 3)
	pinned := envtest.Topic(t, broker.Brokers(), 3)
	s.exec(`insert into cdc_relay.lineage values (1, 'another', 1, '0/0');
		insert into cdc_relay.contract (topic, no, lineage, from_lsn, partition_count, hash, keys, ordering_key, value_format)
		values ('` + pinned + `', 1, 1, '0/0', 12, 'sha256', 'derived', 'row', 'raw')`)
	plain, noGrants := s.role("", "pw"), s.role("replication", "pw")
	if got := runProcess(t, []string{"DATABASE_URL=" + s.url}, "setup", "--role", plain); got.code != 0 {
		t.Fatalf("setup: %+v", got)
	}
	s.exec("create table public.not_outbox (id int primary key)")
	s.exec("create publication other for table public.not_outbox")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close() // nothing was written
	database := func(name string) string {
		c, err := pgx.ParseConfig(s.url)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Replace(s.url, "/"+c.Database, "/"+name, 1)
	}
	for name, row := range map[string]struct {
		url  string
		args []string
		want []string // in the message
	}{
		"wrong password":      {s.as(plain, "hunter2"), nil, []string{plain, "28P01"}},
		"no such user":        {s.as("nobody_here", "hunter2"), nil, []string{"nobody_here", "28P01"}},
		"no such database":    {database("nowhere"), nil, []string{"nowhere", "3D000"}},
		"no such publication": {s.url, []string{"--publication", "missing", "--slot", "s"}, []string{"missing", "hint:"}},
		"no schema":           {s.url, []string{"--schema", "missing"}, []string{"missing", "setup", "hint:"}},
		"no replication":      {s.as(plain, "pw"), nil, []string{plain, "hint: alter role ... replication"}},
		"no grants":           {s.as(noGrants, "pw"), nil, []string{"schema cdc_relay", "hint: grant", noGrants}},
		"not an outbox":       {s.url, []string{"--publication", "other", "--slot", "s2"}, []string{"not_outbox", "hint:"}},
		"no such table":       {s.url, []string{"--table", "public.missing"}, []string{"public.missing", "hint:"}},
		"no such topic":       {s.url, []string{"--topic", "missing-topic"}, []string{"missing-topic", "hint:"}},
		"smaller topic":       {s.url, []string{"--partition-count", "4"}, []string{topic, "3 partitions", "4", "hint:"}},
		"smaller than pinned": {s.url, []string{"--topic", pinned}, []string{pinned, "3 partitions", "12", "hint:"}},
		"address in use":      {s.url, []string{"--admin-listen", taken.Addr().String()}, []string{taken.Addr().String(), "hint:"}},
	} {
		t.Run(name, func(t *testing.T) {
			env := []string{"DATABASE_URL=" + row.url, "KAFKA_BROKERS=" + strings.Join(broker.Brokers(), ",")}
			p := startRelay(t, env, append([]string{"--topic", topic}, row.args...)...)
			code := p.end()
			log := p.log.text()
			_, message, found := strings.Cut(log, "cdc-relay: ")
			if code != 2 || !found || strings.Contains(message, "cdc-relay: ") {
				t.Errorf("exit code %d, want 2 and one message:\n%s", code, log)
			}
			for _, want := range row.want {
				if !strings.Contains(message, want) {
					t.Errorf("%q isn't in the message:\n%s", want, message)
				}
			}
			t.Logf("cdc-relay: %s", message)
			leaks(t, log)
		})
	}
	var slots int
	if err := s.conn.QueryRow(t.Context(), "select count(*) from pg_replication_slots where database = current_database()").Scan(&slots); err != nil {
		t.Fatal(err)
	}
	if slots != 0 {
		t.Errorf("%d slots were left by relays that were refused", slots)
	}
}

func TestRunRefusesOtherWalLevels(t *testing.T) {
	pg := envtest.OwnPostgres(t, devenv.PostgresOptions{Settings: map[string]string{"wal_level": "replica"}})
	url := envtest.DatabaseOn(t, pg)
	env := []string{"DATABASE_URL=" + url, "KAFKA_BROKERS=127.0.0.1:1"}
	setup := runProcess(t, env, "setup")
	p := startRelay(t, env, "--topic", "t")
	if code := p.end(); code != 2 || !strings.Contains(p.log.text(), "wal_level") {
		t.Errorf("exit code %d after setup %+v:\n%s", code, setup, p.log.text())
	}
}

// An unreachable server is waited for; a stop then is clean.
func TestUnreachableIsWaitedFor(t *testing.T) {
	s := newSource(t)
	const nobody = "127.0.0.1:1"
	for name, url := range map[string]string{"postgres": "postgres://u:hunter2@" + nobody + "/db", "kafka": s.url} {
		t.Run(name, func(t *testing.T) {
			p := startRelay(t, []string{"DATABASE_URL=" + url, "KAFKA_BROKERS=" + nobody}, "--topic", "t")
			address := p.address()
			if code, body := p.get(address, "/livez"); code != 200 {
				t.Errorf("livez: %d %s", code, body)
			}
			body := p.until(address, "/readyz?verbose", func(code int, body string) bool {
				return code == 503 && strings.Contains(body, nobody)
			})
			var st map[string]any
			if err := json.Unmarshal([]byte(body), &st); err != nil || st["ready"] != false {
				t.Errorf("%s, %v", body, err)
			}
			p.signal(syscall.SIGTERM)
			if code := p.end(); code != 0 {
				t.Errorf("exit code %d:\n%s", code, p.log.text())
			}
			leaks(t, p.log.text()+body)
		})
	}
}

// With events in flight to a broker that is gone, the first signal waits for it and the second
// one ends the process at once.
func TestSecondSignal(t *testing.T) {
	s := newSource(t)
	broker := envtest.Embedded(t)
	topic := envtest.Topic(t, broker.Brokers(), 3)
	p := startRelay(t, []string{"DATABASE_URL=" + s.url, "KAFKA_BROKERS=" + strings.Join(broker.Brokers(), ",")},
		"--topic", topic, "--shutdown-drain", "1h")
	address := p.address()
	p.until(address, "/readyz", func(code int, _ string) bool { return code == 200 })
	holdProduce(broker.Cluster())
	s.exec(insert)
	p.until(address, "/metrics", func(_ int, body string) bool { return strings.Contains(body, "cdc_relay_inflight_events 1\n") })
	p.signal(syscall.SIGTERM)
	p.until(address, "/readyz?verbose", func(_ int, body string) bool { return strings.Contains(body, `"stopping"`) })
	p.signal(syscall.SIGINT)
	if code := p.end(); code != 1 || !strings.Contains(p.log.text(), "cdc-relay: stop: a second signal") {
		t.Errorf("exit code %d:\n%s", code, p.log.text())
	}
}

// A drain that ends with events in flight says how many will repeat, and exits with 1.
func TestUnacknowledgedLeft(t *testing.T) {
	s := newSource(t)
	broker := envtest.Embedded(t)
	topic := envtest.Topic(t, broker.Brokers(), 3)
	p := startRelay(t, []string{"DATABASE_URL=" + s.url, "KAFKA_BROKERS=" + strings.Join(broker.Brokers(), ",")},
		"--topic", topic, "--shutdown-drain", "0s")
	address := p.address()
	p.until(address, "/readyz", func(code int, _ string) bool { return code == 200 })
	holdProduce(broker.Cluster())
	s.exec(insert)
	p.until(address, "/metrics", func(_ int, body string) bool { return strings.Contains(body, "cdc_relay_inflight_events 1\n") })
	p.signal(syscall.SIGTERM)
	if code := p.end(); code != 1 || !strings.Contains(p.log.text(), "cdc-relay: stopped; at most 1 events from ") {
		t.Errorf("exit code %d:\n%s", code, p.log.text())
	}
}
