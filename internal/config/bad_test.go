package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Each row is one mistake and the message for it: the key, what was written, where, why, and
// what to do. F stands for the file's name.
func TestMistakesInFile(t *testing.T) {
	rows := []struct{ yaml, want string }{
		// unknown keys, with the nearest known one
		{"publicaton: x", `publicaton (F:1): is no key of the configuration | did you mean publication?`},
		{"kafka:\n  broker: a:1", `kafka.broker (F:2): is no key of the configuration | did you mean kafka.brokers?`},
		{"brokers: a:1", `brokers (F:1): is no key of the configuration | did you mean kafka.brokers?`},
		{"\n\ntopics: {name: a}", `topics (F:3): is no key of the configuration | did you mean topic?`},
		{"kafka: {tls: {ca: /x}}", `kafka.tls.ca (F:1): is no key of the configuration | did you mean kafka.tls.ca_file?`},
		{"topic.name: a", `topic.name (F:1): is no plain key | write sections below each other, or as topic: {name: orders}`},
		{"1: a", `1 (F:1): is not a plain key | write keys as plain words, without anchors or merges`},
		{"<<: {publication: a}", `<< (F:1): is not a plain key | write keys as plain words, without anchors or merges`},
		// the wrong kind of thing
		{"kafka: a:1", `kafka (F:1): is a section, not a value | write its keys below it: brokers, tls, sasl, compression, buffer_bytes`},
		{"topic: {name: {a: b}}", `topic.name (F:1): takes a value, not a section | `},
		{"topic: {name: [a]}", `topic.name "a" (F:1): takes one value, not a list | `},
		{"topic: {name: []}", `topic.name (F:1): takes one value, not a list | `},
		{"topic: {name: ''}", `topic.name (F:1): is empty | give it a value, or leave it out`},
		{"topic: {name: &x a}", `topic.name (F:1): is not a plain value | write the value itself, without anchors, aliases or tags`},
		{"topic: {name: !!str a}", `topic.name (F:1): is not a plain value | write the value itself, without anchors, aliases or tags`},
		{"kafka: {brokers: [[a]]}", `kafka.brokers (F:1): holds something else than plain values | write it like [a, b]`},
		// no YAML, or not one mapping
		{"a: b: c", `file "F" (line 1, column 4): is not YAML | look for a missing quote, a wrong indentation or a key that is written twice`},
		{"publication: a\npublication: b", `file "F" (line 2, column 1): is not YAML | look for a missing quote, a wrong indentation or a key that is written twice`},
		{"- a", `file (F:1): is not a mapping of keys to values | write it like publication: outbox`},
		{"publication: a\n---\npublication: b", `file (F:3): holds more than one document | keep one`},
		// values
		{"partition: {count: abc}", `partition.count "abc" (F:1): is not a whole number | give a whole number from 1 to 100000`},
		{"partition: {count: 0}", `partition.count "0" (F:1): is out of range | give a whole number from 1 to 100000`},
		{"partition: {count: -1}", `partition.count "-1" (F:1): is not a whole number | give a whole number from 1 to 100000`},
		{"partition: {count: 1.5}", `partition.count "1.5" (F:1): is not a whole number | give a whole number from 1 to 100000`},
		{"partition: {count: 0x10}", `partition.count "0x10" (F:1): is not a whole number | give a whole number from 1 to 100000`},
		{"partition: {count: 99999999999999999999}", `partition.count "99999999999999999999" (F:1): is out of range | give a whole number from 1 to 100000`},
		{"partition: {hash: md5}", `partition.hash "md5" (F:1): is not a value of it | use sha256`},
		{"kafka: {brokers: localhost}", `kafka.brokers "localhost" (F:1): "localhost" is not host:port | write brokers as host:port with commas between them, like kafka:9092`},
		{"kafka: {brokers: 'a:1,,b:2'}", `kafka.brokers "a:1,,b:2" (F:1): "" is not host:port | write brokers as host:port with commas between them, like kafka:9092`},
		{"kafka: {brokers: 'a:99999'}", `kafka.brokers "a:99999" (F:1): "a:99999" has a bad port | give a port from 1 to 65535`},
		{"kafka: {brokers: 'kafka://a:1'}", `kafka.brokers "kafka://a:1" (F:1): "kafka://a:1" has a scheme | write brokers as host:port, without scheme`},
		{"kafka: {brokers: []}", `kafka.brokers (F:1): is empty | name at least one broker as host:port`},
		{"kafka: {compression: gzip}", `kafka.compression "gzip" (F:1): is not a value of it | use none, lz4, snappy or zstd`},
		{"kafka: {buffer_bytes: 16MB}", `kafka.buffer_bytes "16MB" (F:1): has the unknown unit "MB" | use B, KiB, MiB or GiB`},
		{"kafka: {buffer_bytes: lots}", `kafka.buffer_bytes "lots" (F:1): is not a size | write it like 16MiB`},
		{"kafka: {buffer_bytes: 10}", `kafka.buffer_bytes "10" (F:1): is out of range | give a size from 64KiB to 4GiB`},
		{"kafka: {buffer_bytes: 9999999999GiB}", `kafka.buffer_bytes "9999999999GiB" (F:1): is out of range | write it like 16MiB`},
		{"shutdown: {drain: 20}", `shutdown.drain "20" (F:1): is not a duration | write it like 20s or 1m30s`},
		{"shutdown: {drain: -1s}", `shutdown.drain "-1s" (F:1): is out of range | give a duration from 0s to 1h0m0s`},
		{"shutdown: {drain: 2h}", `shutdown.drain "2h" (F:1): is out of range | give a duration from 0s to 1h0m0s`},
		{"slot: {name: My-Slot}", `slot.name "My-Slot" (F:1): is not a name of a replication slot | use 1 to 63 of the characters a-z, 0-9 and _`},
		{"topic: {name: a/b}", `topic.name "a/b" (F:1): is not a name of a topic | use 1 to 249 of the characters a-z, A-Z, 0-9, dot, _ and -`},
		{"topic: {name: ..}", `topic.name ".." (F:1): is not a name of a topic | use 1 to 249 of the characters a-z, A-Z, 0-9, dot, _ and -`},
		{"publication: " + strings.Repeat("a", 64) + "\nslot: {name: s}", `publication "` + strings.Repeat("a", 64) + `" (F:1): is longer than the 63 bytes of a Postgres name | shorten it`},
		{"outbox: {tables: [outbox]}", `outbox.tables "outbox" (F:1): names no schema | write it as schema.table, like public.outbox`},
		{"outbox: {tables: [a.b.c]}", `outbox.tables "a.b.c" (F:1): has more than two parts | write it as schema.table`},
		{"outbox: {tables: ['a.']}", `outbox.tables "a." (F:1): is not a table's name | write it as schema.table; quote a part with special characters like "My.Table"`},
		{"outbox: {tombstones: yes}", `outbox.tombstones "yes" (F:1): is neither true nor false | use true or false`},
		{"outbox: {keys: mine}", `outbox.keys "mine" (F:1): is not a value of it | use derived or stored`},
		{"outbox: {ordering_key: lsn}", `outbox.ordering_key "lsn" (F:1): is not a value of it | use row or commit`},
		{"admin: {listen: 9464}", `admin.listen "9464" (F:1): is not host:port | write it like 127.0.0.1:9464, or :9464 for every interface`},
		{"admin: {listen: 'a:'}", `admin.listen "a:" (F:1): has a bad port | give a port from 0 to 65535`},
		{"log: {level: loud}", `log.level "loud" (F:1): is not a value of it | use trace, debug, info, warn or error`},
		{"log: {format: text}", `log.format "text" (F:1): is not a value of it | use auto, console or json`},
		// what isn't there yet
		{"slot: {failover: on}", `slot.failover "on" (F:1): is not supported yet | use auto`},
		{"outbox: {tables: [a.b, a.c]}", `outbox.tables "a.b,a.c" (F:1): more than one outbox table is not supported yet | name one`},
		{"outbox: {preset: debezium}", `outbox.preset "debezium" (F:1): is not supported yet | use auto or default`},
		{"outbox: {mapping: {id: x}}", `outbox.mapping (F:1): is not supported yet | leave it out`},
		{"outbox: {mark_published: true}", `outbox.mark_published "true" (F:1): is not supported yet | use false`},
		{"outbox: {messages: false}", `outbox.messages "false" (F:1): is not supported yet | use true`},
		{"topic: {column: topic}", `topic.column "topic" (F:1): is not supported yet | leave it out`},
		{"topic: {template: 'a.{b}'}", `topic.template "a.{b}" (F:1): is not supported yet | leave it out`},
		{"partition: {hash: murmur2}", `partition.hash "murmur2" (F:1): is not supported yet | use sha256`},
		{"on_reject: {policy: park}", `on_reject.policy "park" (F:1): is not supported yet | use halt`},
		{"on_reject: {policy: dead-letter}", `on_reject.policy "dead-letter" (F:1): is not supported yet | use halt`},
		{"on_reject: {dead_letter_topic: d}", `on_reject.dead_letter_topic "d" (F:1): is not supported yet | leave it out`},
		{"replay: {window: 1h}", `replay.window "1h" (F:1): is not supported yet | leave it out`},
		{"replay: {max_wal: 2GiB}", `replay.max_wal "2GiB" (F:1): is not supported yet | leave it out`},
		{"kafka: {sasl: {mechanism: aws-msk-iam}}", `kafka.sasl.mechanism "aws-msk-iam" (F:1): is not supported yet | use plain, scram-sha-256 or scram-sha-512`},
	}
	for _, row := range rows {
		file := write(t, row.yaml)
		got := problems(t, Sources{File: file})
		want := "configuration: " + strings.ReplaceAll(row.want, "F", file)
		if len(got) != 1 || got[0] != want {
			t.Errorf("%s\n got %q\nwant %q", row.yaml, got, want)
		}
	}
}

func TestMistakesInEnvironment(t *testing.T) {
	rows := []struct {
		env  []string
		want []string
	}{
		{[]string{"CDC_RELAY_TOPIC=a"}, []string{"configuration: CDC_RELAY_TOPIC (environment): is no variable of cdc-relay | did you mean CDC_RELAY_TOPIC_NAME?"}},
		{[]string{"CDC_RELAY_KAFKA_BROKER=a:1"}, []string{"configuration: CDC_RELAY_KAFKA_BROKER (environment): is no variable of cdc-relay | did you mean CDC_RELAY_KAFKA_BROKERS?"}},
		{[]string{"CDC_RELAY_PORT=9464"}, []string{"configuration: CDC_RELAY_PORT (environment): is no variable of cdc-relay | did you mean CDC_RELAY_SLOT_NAME?"}},
		{[]string{"CDC_RELAY_FOO="}, []string{"configuration: CDC_RELAY_FOO (environment): is no variable of cdc-relay | did you mean CDC_RELAY_ON_REJECT_POLICY?"}},
		{[]string{"CDC_RELAY_OUTBOX_MAPPING=a"}, []string{"configuration: CDC_RELAY_OUTBOX_MAPPING (environment): is no variable of cdc-relay | did you mean CDC_RELAY_OUTBOX_TABLES?"}},
		{[]string{"PARTITION_COUNT=twelve"}, []string{`configuration: partition.count "twelve" (variable PARTITION_COUNT): is not a whole number | give a whole number from 1 to 100000`}},
		{[]string{"CDC_RELAY_REPLAY_WINDOW=1h"}, []string{`configuration: replay.window "1h" (variable CDC_RELAY_REPLAY_WINDOW): is not supported yet | leave it out`}},
		{
			[]string{"CDC_RELAY_PARTITION_COUNT=2", "PARTITION_COUNT=3"},
			[]string{"configuration: partition.count (environment): the variables CDC_RELAY_PARTITION_COUNT and PARTITION_COUNT differ | set one of them"},
		},
		{
			[]string{"DATABASE_URL=postgres://u:hunter2@h/db", "CDC_RELAY_POSTGRES_URL=postgres://u:hunter3@h/db"},
			[]string{"configuration: postgres.url (environment): the variables CDC_RELAY_POSTGRES_URL and DATABASE_URL differ | set one of them"},
		},
		{[]string{"CDC_RELAY_CONFIG=/nonexistent/x.yaml"}, []string{`configuration: file "/nonexistent/x.yaml": can't be read: no such file or directory | name a YAML file with --config or CDC_RELAY_CONFIG`}},
	}
	for _, row := range rows {
		if got := problems(t, Sources{Environ: row.env}); !slices.Equal(got, row.want) {
			t.Errorf("%q\n got %q\nwant %q", row.env, got, row.want)
		}
	}
}

// Differing variables are refused even where a flag decides: somebody believes otherwise.
func TestDifferingVariablesUnderAFlag(t *testing.T) {
	got := problems(t, Sources{
		Environ: []string{"CDC_RELAY_PARTITION_COUNT=2", "PARTITION_COUNT=3"},
		Flags:   map[string]string{"partition.count": "4"},
	})
	if len(got) != 1 {
		t.Errorf("got %q", got)
	}
}

// A value that a stronger source replaces isn't looked at.
func TestReplacedValueIsNotChecked(t *testing.T) {
	c := mustLoad(t, Sources{Environ: []string{"PARTITION_COUNT=abc"}, Flags: map[string]string{"partition.count": "4"}})
	if c.Partition.Count != 4 {
		t.Errorf("count = %d", c.Partition.Count)
	}
}

func TestMissingKeys(t *testing.T) {
	want := []string{
		"configuration: postgres.url: is not set | set the variable DATABASE_URL, --database-url or the key postgres.url in the file of --config",
		"configuration: kafka.brokers: is not set | set the variable KAFKA_BROKERS, --kafka-brokers or the key kafka.brokers in the file of --config",
		"configuration: topic.name: is not set | set the variable CDC_RELAY_TOPIC_NAME, --topic or the key topic.name in the file of --config",
	}
	if got := problems(t, Sources{Need: RunNeeds()}); !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	// A key with a bad value is bad, not missing, and a file that can't be read hides all.
	if got := problems(t, Sources{Need: []string{"kafka.brokers"}, Flags: map[string]string{"kafka.brokers": "x"}}); len(got) != 1 {
		t.Errorf("got %q", got)
	}
	if got := problems(t, Sources{Need: RunNeeds(), File: "/nonexistent"}); len(got) != 1 {
		t.Errorf("got %q", got)
	}
}

func TestEverythingWrongAtOnce(t *testing.T) {
	file := write(t, "publicaton: x\nkafka: {compression: gzip, brokers: a}\nreplay: {window: 1h}\n")
	got := problems(t, Sources{
		File: file, Environ: []string{"CDC_RELAY_FOO=1", "PARTITION_COUNT=x"},
		Flags: map[string]string{"log.level": "loud"}, Need: RunNeeds(),
	})
	if len(got) != 9 {
		t.Errorf("got %d problems, want 9:\n%s", len(got), strings.Join(got, "\n"))
	}
}

func TestKeysThatMustAgree(t *testing.T) {
	dir := t.TempDir()
	pw := filepath.Join(dir, "pw")
	if err := os.WriteFile(pw, []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	rows := []struct{ yaml, want string }{
		{"postgres: {url: 'postgres://u:p@h/d', password_file: PW}", "postgres.password_file (F:1): gives a password, and so does postgres.url | keep one of them"},
		{"postgres: {url: 'host=h password=p', password_command: echo}", "postgres.password_command (F:1): gives a password, and so does postgres.url | keep one of them"},
		{"postgres: {url: 'postgres://u@h/d?password=p', password_file: PW}", "postgres.password_file (F:1): gives a password, and so does postgres.url | keep one of them"},
		{"postgres: {password_file: PW, password_command: echo}", "postgres.password_command (F:1): gives a password, and so does postgres.password_file | keep one of them"},
		{"postgres: {password_file: PW.no}", `postgres.password_file "PW.no" (F:1): can't be read: no such file or directory | `},
		{"postgres: {password_file: DIR}", `postgres.password_file "DIR" (F:1): is a directory | name a file`},
		{"postgres: {password_file: /dev/null}", `postgres.password_file "/dev/null" (F:1): is no password: it is empty | write the password into it, and nothing else`},
		{"postgres: {password_command: []}", "postgres.password_command (F:1): names no command | give a command line, or a list of a program and its arguments"},
		{"kafka: {tls: {enabled: false, server_name: a}}", `kafka.tls.enabled "false" (F:1): contradicts the other keys of kafka.tls | leave it out, or leave them out`},
		{"kafka: {tls: {cert_file: PW}}", "kafka.tls: has only one of cert_file and key_file | give both, or neither"},
		{"kafka: {tls: {ca_file: PW}}", "kafka.tls: read kafka.tls.ca_file PW: it holds no certificate in PEM form | "},
		{"kafka: {tls: {cert_file: PW, key_file: PW}}", "kafka.tls: read kafka.tls.cert_file PW and key_file PW: tls: failed to find any PEM data in certificate input | "},
		{"kafka: {sasl: {username: u}}", "kafka.sasl.mechanism: is not set, while a user or a password is | set it to plain, scram-sha-256 or scram-sha-512"},
		{"kafka: {sasl: {mechanism: plain, password: p}}", "kafka.sasl.username: is not set, while kafka.sasl.mechanism is | set the variable CDC_RELAY_KAFKA_SASL_USERNAME, --kafka-sasl-username or the key kafka.sasl.username in the file of --config"},
		{"kafka: {sasl: {mechanism: plain, username: u}}", "kafka.sasl.password: is not set, while kafka.sasl.mechanism is | set the variable CDC_RELAY_KAFKA_SASL_PASSWORD, or name a file with --kafka-sasl-password-file"},
		{"kafka: {sasl: {mechanism: plain, username: u, password: p, password_file: PW}}", "kafka.sasl.password_file (F:1): gives a password, and so does kafka.sasl.password | keep one of them"},
	}
	place := strings.NewReplacer("PW", pw, "DIR", dir)
	for _, row := range rows {
		file := write(t, place.Replace(row.yaml))
		got := problems(t, Sources{File: file})
		want := "configuration: " + strings.ReplaceAll(place.Replace(row.want), "F:1", file+":1")
		if len(got) != 1 || got[0] != want {
			t.Errorf("%s\n got %q\nwant %q", row.yaml, got, want)
		}
	}
}

func TestHugeFileAndValue(t *testing.T) {
	got := problems(t, Sources{File: write(t, "#"+strings.Repeat("x", fileBytesMax))})
	if len(got) != 1 || !strings.Contains(got[0], "it has more than 1048576 bytes") {
		t.Errorf("got %q", got)
	}
	got = problems(t, Sources{Flags: map[string]string{"log.level": strings.Repeat("x", 5000)}})
	if len(got) != 1 || len(got[0]) > 300 {
		t.Errorf("got %d bytes", len(got[0]))
	}
}
