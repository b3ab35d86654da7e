package config

import "time"

// Config is what the relay is told. All of it has been checked; what was left out has its
// default.
type Config struct {
	Postgres    Postgres
	Publication string
	Slot        Slot
	Outbox      Outbox
	Topic       Topic
	Partition   Partition
	Kafka       Kafka
	OnReject    OnReject
	Admin       Admin
	Shutdown    Shutdown
	Log         Log

	settings []Setting
}

// Postgres says how to reach the source. ConnString puts URL and password together.
type Postgres struct {
	// URL is a postgres:// URL or a keyword=value string.
	URL Secret
	// PasswordFile is read anew for every connection.
	PasswordFile string
	// PasswordCommand is run anew for every connection; its output is the password. A secret,
	// because people do write the password into it.
	PasswordCommand Command
	// Schema holds the relay's own tables.
	Schema string
}

// Slot names the replication slot.
type Slot struct{ Name string }

// Outbox says which table holds events, and how to read them.
type Outbox struct {
	// Tables holds at most one table for now; none means the one published table that fits.
	Tables []Table
	// Preset is auto or default.
	Preset string
	// Keys is derived or stored.
	Keys string
	// OrderingKey is row or commit.
	OrderingKey string
	// Tombstones lets a NULL payload become a record without a value.
	Tombstones bool
	// IgnoreTables are published tables that are no outbox, for those that can't be looked up
	// any more.
	IgnoreTables []Table
}

// Topic says where events go.
type Topic struct{ Name string }

// Partition says how a key becomes a partition.
type Partition struct {
	// Count is the number of partitions to pin at the first publication; 0 takes the topic's.
	Count int32
	// Hash is sha256.
	Hash string
}

// Kafka says how to reach the brokers and how to write to them.
type Kafka struct {
	Brokers []string
	TLS     TLS
	SASL    SASL
	// Compression is none, lz4, snappy or zstd.
	Compression string
	// BufferBytes bounds the events that are read and not yet acknowledged.
	BufferBytes int64
}

// OnReject says what to do with an event that can't be published.
type OnReject struct {
	// Policy is halt.
	Policy string
}

// Admin is the HTTP server for probes and metrics.
type Admin struct{ Listen string }

// Shutdown bounds a clean stop.
type Shutdown struct{ Drain time.Duration }

// Log says what is logged and how.
type Log struct {
	// Level is trace, debug, info, warn or error.
	Level string
	// Format is auto, console or json; auto is console on a terminal.
	Format string
}

// Sources are where a configuration comes from, weakest last: Flags, Environ, File.
type Sources struct {
	// File is a YAML file. Where it is empty, the variable CDC_RELAY_CONFIG names one; without
	// either there is none.
	File string
	// Environ are variables as os.Environ gives them.
	Environ []string
	// Flags are the flags that were given, by the path of their key.
	Flags map[string]string
	// Need are keys that must be given by some source, or have a default.
	Need []string
}

// RunNeeds are the keys that a relay can't run without.
func RunNeeds() []string { return []string{"postgres.url", "kafka.brokers", "topic.name"} }

// Load puts the sources together. An error is always an *Error and lists everything that is
// wrong. It reads the files that are named, and runs no command and opens no connection.
func Load(src Sources) (Config, error) {
	l := loader{need: src.Need, given: map[string]given{}, bad: map[string]bool{}}
	env := readEnv(&l, src.Environ)
	file := src.File
	if file == "" {
		file = env.config
	}
	if file != "" {
		readFile(&l, file)
	}
	for path, g := range env.given {
		l.given[path] = g
	}
	for path, text := range src.Flags {
		k, ok := keyAt(path)
		if !ok {
			// The flags are made from the table, so this is the caller's mistake.
			panic("config: flag for unknown key " + path)
		}
		l.given[path] = given{value: value{text: text}, origin: "flag --" + k.flag}
	}
	c := l.build()
	if len(l.problems) > 0 {
		return Config{}, &Error{Problems: l.problems}
	}
	return c, nil
}

// value is what was written for a key: a text, or a list of them.
type value struct {
	text   string
	list   []string
	isList bool
}

// given is a value and where it came from.
type given struct {
	value
	origin string
}

// loader collects values and what is wrong with them.
type loader struct {
	need     []string
	given    map[string]given
	bad      map[string]bool // keys that have a problem already
	problems []*Problem
}

func (l *loader) problem(p *Problem) {
	l.bad[p.Key] = true
	l.problems = append(l.problems, p)
}

// build parses what was given, in the order of the table.
func (l *loader) build() Config {
	var c Config
	for i := range table {
		k := &table[i]
		g, ok := l.given[k.path]
		if !ok {
			g = given{value: value{text: k.def}, origin: "default"}
			if k.def == "" || k.soon {
				continue
			}
		}
		if p := k.apply(&c, g); p != nil {
			l.problem(p)
		}
	}
	l.finish(&c)
	for i := range table {
		k := &table[i]
		if k.soon {
			continue
		}
		origin := "default"
		if g, ok := l.given[k.path]; ok {
			origin = g.origin
		}
		if s, ok := k.setting(&c, origin); ok {
			c.settings = append(c.settings, s)
		}
	}
	return c
}
