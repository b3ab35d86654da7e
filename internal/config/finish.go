package config

import "strings"

// finish derives what depends on several keys, and checks what must agree.
func (l *loader) finish(c *Config) {
	l.finishSlot(c)
	l.finishPassword(c)
	l.finishTLS(c)
	l.finishSASL(c)
	if l.bad[fileKey] {
		return // what the file would have said isn't known
	}
	for _, path := range l.need {
		if _, ok := l.given[path]; ok || l.bad[path] {
			continue
		}
		k, ok := keyAt(path)
		if !ok {
			panic("config: unknown key is needed: " + path)
		}
		if k.def == "" {
			l.problem(&Problem{Key: path, Cause: "is not set", Remedy: "set " + k.names()})
		}
	}
}

// names lists all the ways to give a key.
func (k *key) names() string {
	var ways []string
	if len(k.env) > 0 {
		ways = append(ways, "the variable "+strings.Join(k.env, " or "))
	} else {
		ways = append(ways, "the variable "+k.variable())
	}
	if k.flag != "" {
		ways = append(ways, "--"+k.flag)
	}
	ways = append(ways, "the key "+k.path+" in the file of --config")
	return either(ways)
}

// finishSlot fills the slot's default name from the publication's.
func (l *loader) finishSlot(c *Config) {
	if _, ok := l.given["slot.name"]; ok || l.bad["publication"] {
		return
	}
	name := "cdc_relay_" + c.Publication
	if slotName(name) != nil {
		l.problem(&Problem{
			Key: "slot.name", Value: name, Origin: "default",
			Cause:  "the default doesn't fit a replication slot",
			Remedy: "name one with --slot, of 1 to 63 of the characters a-z, 0-9 and _",
		})
		return
	}
	c.Slot.Name = name
}

// finishPassword sees to it that there is one password, so that nobody wonders which.
func (l *loader) finishPassword(c *Config) {
	var from []string
	if !c.Postgres.URL.IsZero() && hasPassword(c.Postgres.URL.Reveal()) {
		from = append(from, "postgres.url")
	}
	if c.Postgres.PasswordFile != "" {
		from = append(from, "postgres.password_file")
	}
	if !c.Postgres.PasswordCommand.IsZero() {
		from = append(from, "postgres.password_command")
	}
	l.single(from, "password")
}

// single refuses two sources of one thing.
func (l *loader) single(from []string, what string) {
	if len(from) < 2 {
		return
	}
	last := from[len(from)-1]
	l.problem(&Problem{
		Key: last, Origin: l.given[last].origin,
		Cause:  "gives a " + what + ", and so does " + strings.Join(from[:len(from)-1], " and "),
		Remedy: "keep one of them",
	})
}

func (l *loader) finishTLS(c *Config) {
	t := &c.Kafka.TLS
	wanted := t.CAFile != "" || t.CertFile != "" || t.KeyFile != "" || t.ServerName != ""
	if wanted && t.off {
		l.problem(&Problem{
			Key: "kafka.tls.enabled", Value: "false", Origin: l.given["kafka.tls.enabled"].origin,
			Cause:  "contradicts the other keys of kafka.tls",
			Remedy: "leave it out, or leave them out",
		})
		return
	}
	t.Enabled = t.Enabled || wanted
	if (t.CertFile == "") != (t.KeyFile == "") && !l.bad["kafka.tls.cert_file"] && !l.bad["kafka.tls.key_file"] {
		l.problem(&Problem{
			Key:   "kafka.tls",
			Cause: "has only one of cert_file and key_file", Remedy: "give both, or neither",
		})
		return
	}
	if !t.Enabled || l.bad["kafka.tls.ca_file"] || l.bad["kafka.tls.cert_file"] || l.bad["kafka.tls.key_file"] {
		return
	}
	if _, err := t.Load(); err != nil {
		l.problem(&Problem{Key: "kafka.tls", Cause: err.Error()})
	}
}

func (l *loader) finishSASL(c *Config) {
	s := &c.Kafka.SASL
	var from []string
	if !s.Password.IsZero() {
		from = append(from, "kafka.sasl.password")
	}
	if s.PasswordFile != "" {
		from = append(from, "kafka.sasl.password_file")
	}
	l.single(from, "password")
	if l.bad["kafka.sasl.mechanism"] {
		return
	}
	if s.Mechanism == "" {
		if s.Username != "" || len(from) > 0 {
			l.problem(&Problem{
				Key: "kafka.sasl.mechanism", Cause: "is not set, while a user or a password is",
				Remedy: "set it to plain, scram-sha-256 or scram-sha-512",
			})
		}
		return
	}
	if s.Username == "" && !l.bad["kafka.sasl.username"] {
		k, _ := keyAt("kafka.sasl.username")
		l.problem(&Problem{
			Key: k.path, Cause: "is not set, while kafka.sasl.mechanism is", Remedy: "set " + k.names(),
		})
	}
	if len(from) == 0 && !l.bad["kafka.sasl.password"] && !l.bad["kafka.sasl.password_file"] {
		l.problem(&Problem{
			Key: "kafka.sasl.password", Cause: "is not set, while kafka.sasl.mechanism is",
			Remedy: "set the variable CDC_RELAY_KAFKA_SASL_PASSWORD, or name a file with --kafka-sasl-password-file",
		})
	}
}
