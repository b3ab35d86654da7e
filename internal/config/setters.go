package config

import (
	"fmt"
	"slices"
	"strings"
)

func setURL(c *Config, v value) error {
	if err := checkDSN(v.text); err != nil {
		return err
	}
	c.Postgres.URL = NewSecret(v.text)
	return nil
}

// getURL shows the connection string without what is secret in it.
func getURL(c *Config) any {
	if c.Postgres.URL.IsZero() {
		return nil
	}
	return RedactDSN(c.Postgres.URL.Reveal())
}

func setCommand(c *Config, v value) error {
	args := []string{"/bin/sh", "-c", v.text}
	if v.isList {
		args = v.list
	}
	if len(args) == 0 || strings.TrimSpace(args[0]) == "" {
		return bad("names no command", "give a command line, or a list of a program and its arguments")
	}
	c.Postgres.PasswordCommand = Command{args: slices.Clone(args)}
	return nil
}

func getCommand(c *Config) any {
	if c.Postgres.PasswordCommand.IsZero() {
		return nil
	}
	return mask
}

func setCount(c *Config, v value) error {
	n, err := parseCount(v.text, 1, countMax)
	c.Partition.Count = int32(n)
	return err
}

func getCount(c *Config) any {
	if c.Partition.Count == 0 {
		return nil
	}
	return c.Partition.Count
}

func setBrokers(c *Config, v value) error {
	for _, b := range v.items() {
		if err := broker(b); err != nil {
			return err
		}
	}
	if len(v.items()) == 0 {
		return bad("is empty", "name at least one broker as host:port")
	}
	c.Kafka.Brokers = slices.Clone(v.items())
	return nil
}

func getBrokers(c *Config) any {
	if len(c.Kafka.Brokers) == 0 {
		return nil
	}
	return c.Kafka.Brokers
}

func setTLS(c *Config, v value) error {
	on, err := parseBool(v.text)
	c.Kafka.TLS.Enabled, c.Kafka.TLS.off = on, err == nil && !on
	return err
}

func getTLS(c *Config) any { return c.Kafka.TLS.Enabled }

func setSASLPassword(c *Config, v value) error {
	c.Kafka.SASL.Password = NewSecret(v.text)
	return nil
}

func getSASLPassword(c *Config) any { return textOrNil(c.Kafka.SASL.Password.String()) }

func setBuffer(c *Config, v value) error {
	n, err := parseSize(v.text)
	if err != nil {
		return err
	}
	if n < bufferMin || n > bufferMax {
		return bad("is out of range", fmt.Sprintf("give a size from %s to %s", formatSize(bufferMin), formatSize(bufferMax)))
	}
	c.Kafka.BufferBytes = n
	return nil
}

func getBuffer(c *Config) any { return formatSize(c.Kafka.BufferBytes) }

func setDrain(c *Config, v value) (err error) {
	c.Shutdown.Drain, err = parseDuration(v.text, drainMax)
	return err
}

func getDrain(c *Config) any { return c.Shutdown.Drain.String() }
