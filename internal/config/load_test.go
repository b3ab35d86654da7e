package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// whole is a configuration that sets every key that is there.
const whole = `
postgres:
  url: postgres://relay@db.example:5433/shop?sslmode=disable
  password_command: [printf, "%s", hunter2]
  schema: relay_meta
publication: Orders
slot: {name: my_slot, failover: auto}
outbox:
  tables: [public.outbox_events]
  preset: default
  mapping: {}
  keys: stored
  ordering_key: commit
  mark_published: false
  messages: true
  tombstones: true
  ignore_tables: [public.audit, '"My.Schema"."T ""x"""']
topic: {name: orders}
partition: {count: 12, hash: sha256}
kafka:
  brokers: [k1:9092, "k2:9092"]
  tls: {enabled: true, server_name: kafka.example}
  sasl: {mechanism: scram-sha-512, username: relay, password: 'it''s £'}
  compression: zstd
  buffer_bytes: 8 MiB
on_reject: {policy: halt}
replay:
admin: {listen: ":0"}
shutdown: {drain: 1m30s}
log: {level: debug, format: json}
`

func TestFileSetsEverything(t *testing.T) {
	c := mustLoad(t, Sources{File: write(t, whole), Need: RunNeeds()})
	c.settings = nil
	want := Config{
		Postgres: Postgres{
			URL:             NewSecret("postgres://relay@db.example:5433/shop?sslmode=disable"),
			PasswordCommand: Command{args: []string{"printf", "%s", "hunter2"}},
			Schema:          "relay_meta",
		},
		Publication: "Orders",
		Slot:        Slot{Name: "my_slot"},
		Outbox: Outbox{
			Tables: []Table{{"public", "outbox_events"}}, Preset: "default", Keys: "stored", OrderingKey: "commit",
			Tombstones: true, IgnoreTables: []Table{{"public", "audit"}, {"My.Schema", `T "x"`}},
		},
		Topic:     Topic{Name: "orders"},
		Partition: Partition{Count: 12, Hash: "sha256"},
		Kafka: Kafka{
			Brokers: []string{"k1:9092", "k2:9092"},
			TLS:     TLS{Enabled: true, ServerName: "kafka.example"},
			SASL:    SASL{Mechanism: "scram-sha-512", Username: "relay", Password: NewSecret("it's £")},

			Compression: "zstd", BufferBytes: 8 << 20,
		},
		OnReject: OnReject{Policy: "halt"},
		Admin:    Admin{Listen: ":0"},
		Shutdown: Shutdown{Drain: 90 * time.Second},
		Log:      Log{Level: "debug", Format: "json"},
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got  %#v\nwant %#v", c, want)
	}
}

func TestDefaults(t *testing.T) {
	c := mustLoad(t, Sources{})
	c.settings = nil
	want := Config{
		Postgres: Postgres{Schema: "cdc_relay"}, Publication: "outbox", Slot: Slot{Name: "cdc_relay_outbox"},
		Outbox:    Outbox{Preset: "auto", Keys: "derived", OrderingKey: "row"},
		Partition: Partition{Hash: "sha256"},
		Kafka:     Kafka{Compression: "lz4", BufferBytes: 16 << 20},
		OnReject:  OnReject{Policy: "halt"}, Admin: Admin{Listen: "127.0.0.1:9464"},
		Shutdown: Shutdown{Drain: 20 * time.Second}, Log: Log{Level: "info", Format: "auto"},
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got  %#v\nwant %#v", c, want)
	}
}

// The command line of the documentation: no file, three variables' worth of knowledge.
func TestNoFileIsNeeded(t *testing.T) {
	c := mustLoad(t, Sources{
		Environ: []string{"DATABASE_URL=postgres://u:p@h/db", "KAFKA_BROKERS=k1:9092, k2:9093", "PARTITION_COUNT=24", "HOME=/root"},
		Flags:   map[string]string{"publication": "outbox", "topic.name": "orders"},
		Need:    RunNeeds(),
	})
	if got := c.Kafka.Brokers; !reflect.DeepEqual(got, []string{"k1:9092", "k2:9093"}) {
		t.Errorf("brokers = %q", got)
	}
	if c.Partition.Count != 24 || c.Topic.Name != "orders" || c.Postgres.URL.Reveal() != "postgres://u:p@h/db" {
		t.Errorf("got %+v", c)
	}
}

// Each source in turn is given, from the weakest to the strongest, and each wins over those
// before it. Every key that can be given in two ways takes part.
func TestPrecedence(t *testing.T) {
	file := write(t, "topic: {name: from-file}\npartition: {count: 1}\n")
	src := Sources{File: file}
	check := func(topic string, count int32, origin string) {
		t.Helper()
		c := mustLoad(t, src)
		if c.Topic.Name != topic || c.Partition.Count != count {
			t.Errorf("got topic %s, count %d; want %s, %d", c.Topic.Name, c.Partition.Count, topic, count)
		}
		for _, s := range c.Settings() {
			if s.Key == "partition.count" && s.Origin != origin {
				t.Errorf("origin of partition.count = %q, want %q", s.Origin, origin)
			}
		}
	}
	check("from-file", 1, file+":2")
	src.Environ = []string{"CDC_RELAY_TOPIC_NAME=from-env", "PARTITION_COUNT=2"}
	check("from-env", 2, "variable PARTITION_COUNT")
	src.Environ = []string{"CDC_RELAY_TOPIC_NAME=from-env", "CDC_RELAY_PARTITION_COUNT=2", "PARTITION_COUNT=2"}
	check("from-env", 2, "variable CDC_RELAY_PARTITION_COUNT")
	src.Flags = map[string]string{"topic.name": "from-flag", "partition.count": "3"}
	check("from-flag", 3, "flag --partition-count")
}

func TestFileNamedByVariable(t *testing.T) {
	file := write(t, "topic: {name: a}\n")
	c := mustLoad(t, Sources{Environ: []string{"CDC_RELAY_CONFIG=" + file}})
	if c.Topic.Name != "a" {
		t.Errorf("topic = %q", c.Topic.Name)
	}
	other := write(t, "topic: {name: b}\n")
	c = mustLoad(t, Sources{File: other, Environ: []string{"CDC_RELAY_CONFIG=" + file}})
	if c.Topic.Name != "b" {
		t.Errorf("topic = %q: the flag --config must win over the variable", c.Topic.Name)
	}
}

func TestEmptyVariableIsNotSet(t *testing.T) {
	c := mustLoad(t, Sources{
		File:    write(t, "topic: {name: a}\n"),
		Environ: []string{"CDC_RELAY_TOPIC_NAME=", "PARTITION_COUNT=", "CDC_RELAY_CONFIG="},
	})
	if c.Topic.Name != "a" || c.Partition.Count != 0 {
		t.Errorf("got %+v", c)
	}
}

// A Kubernetes service named cdc-relay puts such variables into every container beside it; the
// tools for developers have some of their own.
func TestOthersVariablesAreNotTypingErrors(t *testing.T) {
	mustLoad(t, Sources{Environ: []string{
		"CDC_RELAY_SERVICE_HOST=10.0.0.1", "CDC_RELAY_SERVICE_PORT=9464", "CDC_RELAY_SERVICE_PORT_METRICS=9464",
		"CDC_RELAY_PORT=tcp://10.0.0.1:9464", "CDC_RELAY_PORT_9464_TCP=tcp://10.0.0.1:9464",
		"CDC_RELAY_PORT_9464_TCP_PROTO=tcp", "CDC_RELAY_PORT_9464_TCP_PORT=9464", "CDC_RELAY_PORT_9464_TCP_ADDR=10.0.0.1",
		"CDC_RELAY_METRICS_SERVICE_HOST=10.0.0.2", "CDC_RELAY_METRICS_PORT=tcp://10.0.0.2:9464",
	}})
	mustLoad(t, Sources{Environ: []string{"CDC_RELAY_DEVENV_POSTGRES=fetched"}})
	for i := range table {
		if name := table[i].variable(); serviceLink(name, "tcp://x") {
			t.Errorf("%s is a key, and looks like a service's variable", name)
		}
	}
}

func TestSlotDefault(t *testing.T) {
	for publication, want := range map[string]string{"orders": "cdc_relay_orders", "o_1": "cdc_relay_o_1"} {
		c := mustLoad(t, Sources{Flags: map[string]string{"publication": publication}})
		if c.Slot.Name != want {
			t.Errorf("slot of %s = %q, want %q", publication, c.Slot.Name, want)
		}
	}
	for _, publication := range []string{"Orders", "my-pub", strings.Repeat("a", 54), "café"} {
		_, err := Load(Sources{Flags: map[string]string{"publication": publication}})
		if err == nil || !strings.Contains(err.Error(), "slot.name") {
			t.Errorf("publication %s: got %v, want a problem with slot.name", publication, err)
		}
		c := mustLoad(t, Sources{Flags: map[string]string{"publication": publication, "slot.name": "s"}})
		if c.Slot.Name != "s" {
			t.Errorf("slot = %q", c.Slot.Name)
		}
	}
}

func TestEmptyFiles(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "---\n", "kafka:\n", "kafka: {}\ntopic: {name: }\n", "topic: {name: ~}\n"} {
		mustLoad(t, Sources{File: write(t, text)})
	}
}

// Scalars are taken as they are written, whatever YAML would make of them.
func TestTextOfScalars(t *testing.T) {
	for text, want := range map[string]string{
		"1.10": "1.10", "007": "007", "true": "true", "'quoted'": "quoted", `"a\u002db"`: "a-b", "|-\n    block": "block", "0x10": "0x10", ".inf": ".inf",
	} {
		c := mustLoad(t, Sources{File: write(t, "topic:\n  name: "+text+"\n")})
		if c.Topic.Name != want {
			t.Errorf("%q is read as %q, want %q", text, c.Topic.Name, want)
		}
	}
}

func mustLoad(t *testing.T, src Sources) Config {
	t.Helper()
	c, err := Load(src)
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	return c
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "relay.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// problems runs Load and returns each problem with its hint.
func problems(t *testing.T, src Sources) []string {
	t.Helper()
	_, err := Load(src)
	var ce *Error
	if !errors.As(err, &ce) {
		t.Fatalf("got %v, want an *Error", err)
	}
	if ce.ExitCode() != 2 {
		t.Errorf("exit code %d, want 2", ce.ExitCode())
	}
	var out []string
	for _, p := range ce.Problems {
		if p.ExitCode() != 2 {
			t.Errorf("%v: exit code %d", p, p.ExitCode())
		}
		out = append(out, fmt.Sprintf("%v | %s", p, p.Hint()))
	}
	return out
}
