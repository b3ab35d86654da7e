package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/IBM/sarama"
	"github.com/rs/zerolog"
)

// Config says where Kafka is and how to talk to it. Zero values mean the defaults.
type Config struct {
	// Brokers are host:port addresses to begin with; the others are learned from them.
	Brokers []string
	// ClientID names us in the brokers' logs and quotas. Default: cdc-relay.
	ClientID string
	// TLS is used when it isn't nil.
	TLS  *tls.Config
	SASL SASL
	// Compression is none, lz4, snappy or zstd. Default: lz4.
	Compression string

	// BatchBytes bounds one partition's batch before compression. Default: 512 KiB. What the
	// topic takes (max.message.bytes) is found out by itself.
	BatchBytes int
	// RequestBytes bounds the batches of one request, before compression. Default: 2 MiB.
	RequestBytes int

	// DialTimeout and WriteTimeout default to 5 s. ProduceTimeout, default 5 s, is how long a
	// broker may wait for its replicas. ReadTimeout, default 10 s, is how long an answer may
	// take; it must be longer than ProduceTimeout.
	DialTimeout    time.Duration
	WriteTimeout   time.Duration
	ReadTimeout    time.Duration
	ProduceTimeout time.Duration

	// MinBackoff (default 50 ms) and MaxBackoff (default 1 s) bound the growing pause before
	// something is tried again; SlowBackoff (default 5 s) is the pause of a topic that
	// can't be published to.
	MinBackoff  time.Duration
	MaxBackoff  time.Duration
	SlowBackoff time.Duration
	// MetadataInterval is how often the topics are looked at without a cause. Default: 30 s.
	MetadataInterval time.Duration

	// Lost, where not nil, is told of each connection to a broker that was lost. It must not
	// block.
	Lost func()
	Log  zerolog.Logger
	// Dial replaces the network's dialer. For tests.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// SASL says how to log in. An empty Mechanism means that nobody logs in.
type SASL struct {
	// Mechanism is plain, scram-sha-256 or scram-sha-512.
	Mechanism string
	User      string
	Password  string
}

// produceInFlight is how many requests a broker gets before the first is answered: with one
// the broker idles between requests, more than two gains nothing (measured).
const (
	produceInFlight = 2
	// largeRequest is from what size on a second request is sent before the first is
	// answered. Smaller ones gain nothing by it, since a broker takes up one after the other:
	// waiting makes them fewer.
	largeRequest = 64 << 10
	// smallTimeout bounds the wait for small answers.
	smallTimeout = 3 * time.Second
)

// withDefaults fills the zero values in and says what is wrong.
func (c Config) withDefaults() (Config, error) {
	if len(c.Brokers) == 0 {
		return c, errors.New("kafka: no brokers are configured")
	}
	for _, b := range c.Brokers {
		if _, _, err := net.SplitHostPort(b); err != nil {
			return c, fmt.Errorf("kafka: broker address %q is not host:port: %w", b, err)
		}
	}
	setDefault(&c.ClientID, "cdc-relay")
	setDefault(&c.Compression, "lz4")
	setDefault(&c.BatchBytes, 512<<10)
	setDefault(&c.RequestBytes, 2<<20)
	setDefault(&c.DialTimeout, 5*time.Second)
	setDefault(&c.WriteTimeout, 5*time.Second)
	setDefault(&c.ReadTimeout, 10*time.Second)
	setDefault(&c.ProduceTimeout, 5*time.Second)
	setDefault(&c.MinBackoff, 50*time.Millisecond)
	setDefault(&c.MaxBackoff, time.Second)
	setDefault(&c.SlowBackoff, 5*time.Second)
	setDefault(&c.MetadataInterval, 30*time.Second)
	if c.ReadTimeout <= c.ProduceTimeout {
		return c, fmt.Errorf("kafka: read time-out %s must be longer than the produce time-out %s", c.ReadTimeout, c.ProduceTimeout)
	}
	if c.BatchBytes < minBatchCap {
		return c, fmt.Errorf("kafka: batch size %d is below %d bytes", c.BatchBytes, minBatchCap)
	}
	if c.RequestBytes < c.BatchBytes || c.RequestBytes > int(sarama.MaxRequestSize)/2 {
		return c, fmt.Errorf("kafka: request size %d must lie between the batch size %d and %d", c.RequestBytes, c.BatchBytes, sarama.MaxRequestSize/2)
	}
	return c, nil
}

func setDefault[T comparable](v *T, to T) {
	var zero T
	if *v == zero {
		*v = to
	}
}

func codecOf(name string) (sarama.CompressionCodec, error) {
	switch name {
	case "none":
		return sarama.CompressionNone, nil
	case "lz4":
		return sarama.CompressionLZ4, nil
	case "snappy":
		return sarama.CompressionSnappy, nil
	case "zstd":
		return sarama.CompressionZSTD, nil
	}
	return 0, fmt.Errorf("kafka: compression %q is not one of none, lz4, snappy, zstd", name)
}

// sarama translates the configuration.
func (c Config) sarama() (*sarama.Config, error) {
	sc := sarama.NewConfig()
	// The highest that sarama speaks: each request is lowered to what the broker offers.
	sc.Version = sarama.MaxVersion
	sc.ClientID = c.ClientID
	sc.Net.DialTimeout = c.DialTimeout
	sc.Net.ReadTimeout = c.ReadTimeout
	sc.Net.WriteTimeout = c.WriteTimeout
	// Above what we ever have under way: at its own limit sarama blocks inside of a lock.
	sc.Net.MaxOpenRequests = produceInFlight + 3
	if c.TLS != nil {
		sc.Net.TLS.Enable = true
		sc.Net.TLS.Config = c.TLS
	}
	if err := c.SASL.apply(sc); err != nil {
		return nil, err
	}
	if err := sc.Validate(); err != nil {
		return nil, fmt.Errorf("kafka: configuration: %w", err)
	}
	return sc, nil
}
