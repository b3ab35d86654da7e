package config

// key is one row of the table: all that is known about one key of the configuration.
type key struct {
	// path is its place in the file.
	path string
	// flag is its flag, without dashes; where there is none, noFlag says why.
	flag, noFlag string
	// env are its names in the environment besides CDC_RELAY_ and the path.
	env []string
	// usage is the flag's help.
	usage string
	// def is the default as it would be written; empty where there is none.
	def string
	// soon: nothing of the feature is there yet, so any value but an empty one is refused.
	soon bool
	// section: a mapping with names of the user's own, not known keys below it.
	section bool
	field
}

// field is how a key's value gets into a Config and out of it again.
type field struct {
	kind Kind
	// secret values are in no message, and shown masked.
	secret bool
	set    func(*Config, value) error
	// get returns what is shown: a string, a number, a bool or a list; nil where unset.
	get func(*Config) any
}

// Kind says how a flag behaves.
type Kind uint8

// The kinds of keys.
const (
	Text Kind = iota
	Bool
	List // several values, with commas between them
)

const notYet = "its feature is not supported yet"

// table is every key, in the order in which it is shown.
var table = []key{
	{
		path: "postgres.url", flag: "database-url", env: []string{"DATABASE_URL"},
		usage: "connection string of the primary (visible to everybody in the process list: prefer the variable DATABASE_URL)",
		field: field{kind: Text, secret: true, set: setURL, get: getURL},
	},
	{
		path: "postgres.password_file", flag: "password-file",
		usage: "file that holds the password, read for every connection",
		field: text(func(c *Config) *string { return &c.Postgres.PasswordFile }, readableSecret),
	},
	{
		path: "postgres.password_command", noFlag: "a command line in a command line is a trap of quoting",
		usage: "command whose output is the password, run for every connection",
		field: field{kind: List, secret: true, set: setCommand, get: getCommand},
	},
	{
		path: "postgres.schema", flag: "schema", def: "cdc_relay",
		usage: "schema of the relay's own tables",
		field: text(func(c *Config) *string { return &c.Postgres.Schema }, identifier),
	},
	{
		path: "publication", flag: "publication", def: "outbox",
		usage: "publication to stream",
		field: text(func(c *Config) *string { return &c.Publication }, identifier),
	},
	{
		path: "slot.name", flag: "slot", usage: "replication slot (default cdc_relay_ and the publication)",
		field: text(func(c *Config) *string { return &c.Slot.Name }, slotName),
	},
	{
		path: "slot.failover", noFlag: "it has one value so far", def: "auto",
		usage: "keep the slot on standbys, where the server can",
		field: fixed("auto", "on", "off", "true", "false"),
	},
	{
		path: "outbox.tables", flag: "table",
		usage: "outbox table as schema.table (default: the one published table that fits)",
		field: tables(func(c *Config) *[]Table { return &c.Outbox.Tables }, 1),
	},
	{
		path: "outbox.preset", flag: "preset", def: "auto",
		usage: "columns of the outbox: auto or default",
		field: choice(func(c *Config) *string { return &c.Outbox.Preset }, []string{"auto", "default"}, "debezium", "omnibox"),
	},
	{path: "outbox.mapping", noFlag: notYet, soon: true, section: true},
	{
		path: "outbox.keys", flag: "keys", def: "derived",
		usage: "where an event's keys come from: derived (computed) or stored (the row's columns)",
		field: choice(func(c *Config) *string { return &c.Outbox.Keys }, []string{"derived", "stored"}),
	},
	{
		path: "outbox.ordering_key", flag: "ordering-key", def: "row",
		usage: "what the ordering key is made of: row (created_at and id) or commit (the position)",
		field: choice(func(c *Config) *string { return &c.Outbox.OrderingKey }, []string{"row", "commit"}),
	},
	{
		path: "outbox.mark_published", noFlag: notYet, def: "false",
		usage: "write status and published_at back to the outbox",
		field: fixed("false", "true"),
	},
	{
		path: "outbox.messages", noFlag: "it has one value so far", def: "true",
		usage: "transactional logical messages of the prefix cdc_relay are meant as events; until they can be published they halt the relay",
		field: fixed("true", "false"),
	},
	{
		path: "outbox.tombstones", flag: "tombstones", def: "false",
		usage: "publish a NULL payload as a record without a value instead of rejecting it",
		field: boolean(func(c *Config) *bool { return &c.Outbox.Tombstones }),
	},
	{
		path: "outbox.ignore_tables", flag: "ignore-tables",
		usage: "published tables that are no outbox and can't be looked up any more, as schema.table",
		field: tables(func(c *Config) *[]Table { return &c.Outbox.IgnoreTables }, 1000),
	},
	{
		path: "topic.name", flag: "topic",
		usage: "topic to publish to; it must exist",
		field: text(func(c *Config) *string { return &c.Topic.Name }, topicName),
	},
	{path: "topic.column", noFlag: notYet, soon: true},
	{path: "topic.template", noFlag: notYet, soon: true},
	{
		path: "partition.count", flag: "partition-count", env: []string{"PARTITION_COUNT"},
		usage: "partitions to spread keys over, pinned at the first publication (default: what the topic has then)",
		field: field{kind: Text, set: setCount, get: getCount},
	},
	{
		path: "partition.hash", flag: "partition-hash", def: "sha256",
		usage: "function from key to partition: sha256",
		field: choice(func(c *Config) *string { return &c.Partition.Hash }, []string{"sha256"}, "murmur2", "fnv1a"),
	},
	{
		path: "kafka.brokers", flag: "kafka-brokers", env: []string{"KAFKA_BROKERS"},
		usage: "brokers to ask first, as host:port,host:port",
		field: field{kind: List, set: setBrokers, get: getBrokers},
	},
	{
		path: "kafka.tls.enabled", flag: "kafka-tls", def: "",
		usage: "talk TLS to the brokers (on by itself when a file or name for it is given)",
		field: field{kind: Bool, set: setTLS, get: getTLS},
	},
	{
		path: "kafka.tls.ca_file", flag: "kafka-tls-ca-file",
		usage: "certificates to trust, PEM (default: the system's)",
		field: text(func(c *Config) *string { return &c.Kafka.TLS.CAFile }, readable),
	},
	{
		path: "kafka.tls.cert_file", flag: "kafka-tls-cert-file",
		usage: "client certificate, PEM",
		field: text(func(c *Config) *string { return &c.Kafka.TLS.CertFile }, readable),
	},
	{
		path: "kafka.tls.key_file", flag: "kafka-tls-key-file",
		usage: "key of the client certificate, PEM",
		field: text(func(c *Config) *string { return &c.Kafka.TLS.KeyFile }, readable),
	},
	{
		path: "kafka.tls.server_name", flag: "kafka-tls-server-name",
		usage: "name that the brokers' certificates must carry (default: the broker's host)",
		field: text(func(c *Config) *string { return &c.Kafka.TLS.ServerName }, nil),
	},
	{
		path: "kafka.sasl.mechanism", flag: "kafka-sasl-mechanism",
		usage: "plain, scram-sha-256 or scram-sha-512",
		field: choice(func(c *Config) *string { return &c.Kafka.SASL.Mechanism },
			[]string{"plain", "scram-sha-256", "scram-sha-512"}, "aws-msk-iam"),
	},
	{
		path: "kafka.sasl.username", flag: "kafka-sasl-username",
		usage: "user at the brokers",
		field: text(func(c *Config) *string { return &c.Kafka.SASL.Username }, nil),
	},
	{
		path: "kafka.sasl.password", noFlag: "a command line is visible to everybody in the process list",
		usage: "password at the brokers",
		field: field{kind: Text, secret: true, set: setSASLPassword, get: getSASLPassword},
	},
	{
		path: "kafka.sasl.password_file", flag: "kafka-sasl-password-file",
		usage: "file that holds the password at the brokers",
		field: text(func(c *Config) *string { return &c.Kafka.SASL.PasswordFile }, readableSecret),
	},
	{
		path: "kafka.compression", flag: "kafka-compression", def: "lz4",
		usage: "none, lz4, snappy or zstd",
		field: choice(func(c *Config) *string { return &c.Kafka.Compression }, []string{"none", "lz4", "snappy", "zstd"}),
	},
	{
		path: "kafka.buffer_bytes", flag: "kafka-buffer-bytes", def: "16MiB",
		usage: "most bytes of events read and not yet acknowledged",
		field: field{kind: Text, set: setBuffer, get: getBuffer},
	},
	{
		path: "on_reject.policy", flag: "on-reject", def: "halt",
		usage: "what to do with an event that can't be published: halt",
		field: choice(func(c *Config) *string { return &c.OnReject.Policy }, []string{"halt"}, "park", "dead-letter"),
	},
	{path: "on_reject.dead_letter_topic", noFlag: notYet, soon: true},
	{path: "replay.window", noFlag: notYet, soon: true},
	{path: "replay.max_wal", noFlag: notYet, soon: true},
	{
		path: "admin.listen", flag: "admin-listen", def: "127.0.0.1:9464",
		usage: "address for probes and metrics; port 0 takes a free one",
		field: text(func(c *Config) *string { return &c.Admin.Listen }, address),
	},
	{
		path: "shutdown.drain", flag: "shutdown-drain", def: "20s",
		usage: "longest time that a stop waits for what is in flight",
		field: field{kind: Text, set: setDrain, get: getDrain},
	},
	{
		path: "log.level", flag: "log-level", def: "info",
		usage: "trace, debug, info, warn or error",
		field: choice(func(c *Config) *string { return &c.Log.Level }, []string{"trace", "debug", "info", "warn", "error"}),
	},
	{
		path: "log.format", flag: "log-format", def: "auto",
		usage: "console, json, or auto: console on a terminal",
		field: choice(func(c *Config) *string { return &c.Log.Format }, []string{"auto", "console", "json"}),
	},
}

func keyAt(path string) (*key, bool) {
	for i := range table {
		if table[i].path == path {
			return &table[i], true
		}
	}
	return nil, false
}
