package kafka

import (
	"context"
	"strings"
	"testing"
	"time"
)

func TestConfig(t *testing.T) {
	good := Config{Brokers: []string{"localhost:9092"}}
	for _, x := range []struct {
		name   string
		change func(c *Config)
		want   string // in the error; empty: none
	}{
		{"the defaults", func(*Config) {}, ""},
		{"no brokers", func(c *Config) { c.Brokers = nil }, "no brokers"},
		{"a broker without a port", func(c *Config) { c.Brokers = []string{"localhost"} }, "host:port"},
		// Else every answer that waits for replicas would be lost.
		{"read shorter than produce", func(c *Config) { c.ReadTimeout, c.ProduceTimeout = time.Second, 2*time.Second }, "longer than the produce time-out"},
		{"read as long as produce", func(c *Config) { c.ReadTimeout, c.ProduceTimeout = time.Second, time.Second }, "longer than the produce time-out"},
		{"tiny batches", func(c *Config) { c.BatchBytes = minBatchCap - 1 }, "batch size"},
		{"a batch larger than a request", func(c *Config) { c.BatchBytes, c.RequestBytes = 2<<20, 1<<20 }, "request size"},
		{"a request larger than the client takes", func(c *Config) { c.RequestBytes = 60 << 20 }, "request size"},
		{"an unknown compression", func(c *Config) { c.Compression = "gzip" }, "gzip"},
		{"an unknown login", func(c *Config) { c.SASL = SASL{Mechanism: "kerberos", User: "u"} }, "kerberos"},
	} {
		t.Run(x.name, func(t *testing.T) {
			cfg := good
			x.change(&cfg)
			s, err := Open(context.Background(), cfg, newRecorder(t))
			if s != nil {
				_, _ = s.Close(context.Background())
			}
			switch {
			case x.want == "" && err != nil:
				t.Error(err)
			case x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)):
				t.Errorf("error %v, want one with %q in it", err, x.want)
			}
		})
	}
}
