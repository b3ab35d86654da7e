package main

import (
	"context"
	"errors"
	"os"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/rs/zerolog"

	"github.com/cdc-relay/cdc-relay/checkpoint"
	"github.com/cdc-relay/cdc-relay/decode/shape"
	"github.com/cdc-relay/cdc-relay/internal/admin"
	"github.com/cdc-relay/cdc-relay/internal/catalog"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/relay"
	"github.com/cdc-relay/cdc-relay/shard"
	"github.com/cdc-relay/cdc-relay/sink"
	"github.com/cdc-relay/cdc-relay/sink/kafka"
	"github.com/cdc-relay/cdc-relay/wal"
)

const (
	// memoryBase is what the process takes beside the events: connections, slabs, metrics. The
	// runtime's limit doesn't count the program itself, some 15 MiB of pages.
	memoryBase = 8 << 20
	// leastEvent is the least that an event counts against kafka.buffer_bytes, so that the buffer
	// bounds their number too.
	leastEvent = 512
	// closeTimeout bounds the leave-taking from connections that don't matter any more.
	closeTimeout = time.Second
)

// runRelay builds the stages from the configuration and runs them until ctx ends.
func runRelay(ctx context.Context, cfg config.Config, exitOnHalt bool, log zerolog.Logger) error {
	limitMemory(cfg.Kafka.BufferBytes)
	d := &dsn{cfg: cfg.Postgres}
	rows := buildStore(cfg, d)
	var r *relay.Relay
	server := admin.New(admin.Config{Listen: cfg.Admin.Listen, Log: log, Status: func() relay.Status { return r.Status() }})
	events := server.Events()
	drainLeft := func() time.Duration { return r.DrainLeft() }
	k := &kafkaSink{}
	pinner := buildPinner(cfg, rows, k, log)
	outbox := buildOutbox(cfg, rows, log)
	r = relay.New(relay.Config{
		Slot:        cfg.Slot.Name,
		Publication: cfg.Publication,
		Origins:     &relay.Opener{Wal: walConfig(cfg, d, drainLeft, log), Rows: rows, Slot: cfg.Slot.Name, Publication: cfg.Publication, Outbox: outbox, Log: log},
		Store:       rows,
		Catalog:     outbox,
		Contracts:   pinner,
		Sink: func(h sink.Handler) (sink.Sink, error) {
			return k.open(ctx, cfg, h, func() { events.Reconnect("kafka") }, log)
		},
		Check:      func(ctx context.Context) error { return pinner.Check(ctx, cfg.Topic.Name) },
		Limits:     checkpoint.Limits{Events: int(cfg.Kafka.BufferBytes / leastEvent), Bytes: cfg.Kafka.BufferBytes},
		Drain:      cfg.Shutdown.Drain,
		ExitOnHalt: exitOnHalt,
		Log:        log,
		Events:     events,
	})
	if err := server.Start(ctx); err != nil {
		return err
	}
	err := r.Run(ctx)
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if cerr := errors.Join(server.Shutdown(closing), rows.Close(closing)); cerr != nil {
		log.Debug().Err(cerr).Msg("close connections")
	}
	return err
}

// limitMemory tells the runtime what the buffer allows, unless the environment says otherwise: two
// times the events, once as they are and once encoded.
func limitMemory(buffer int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(2*buffer + memoryBase)
	}
}

// dsn gives connection strings, each with the password of the moment.
type dsn struct {
	cfg config.Postgres
	had atomic.Bool // a password was had once
}

// get returns the connection string. A password that can't be had ends a relay at its start; later it is
// tried again, since a file may be caught while it is replaced.
func (d *dsn) get(ctx context.Context) (string, error) {
	s, err := d.cfg.ConnString(ctx)
	if err == nil {
		d.had.Store(true)
	} else if d.had.Load() {
		return "", errors.New(err.Error()) // without the exit code of the cause
	}
	return s, err
}

// buildStore prepares the connection for the relay's own tables. Nothing is connected yet.
func buildStore(cfg config.Config, d *dsn) *checkpoint.Store {
	return checkpoint.NewStore(checkpoint.StoreConfig{
		Config: func(ctx context.Context) (*pgx.ConnConfig, error) {
			s, err := d.get(ctx)
			if err != nil {
				return nil, err
			}
			return pgx.ParseConfig(s)
		},
		Schema: cfg.Postgres.Schema, Slot: cfg.Slot.Name, Owner: checkpoint.NewOwner(),
	})
}

// walConfig gives the settings of a replication connection. drain is how long its stop may take.
func walConfig(cfg config.Config, d *dsn, drain func() time.Duration, log zerolog.Logger) func(context.Context) (wal.Config, error) {
	return func(ctx context.Context) (wal.Config, error) {
		s, err := d.get(ctx)
		if err != nil {
			return wal.Config{}, err
		}
		conn, err := pgconn.ParseConfig(s)
		if err != nil {
			return wal.Config{}, err
		}
		return wal.Config{Conn: conn, Slot: cfg.Slot.Name, Publication: cfg.Publication, Drain: drain, Log: log}, nil
	}
}

func buildOutbox(cfg config.Config, rows *checkpoint.Store, log zerolog.Logger) *relay.Outbox {
	return &relay.Outbox{
		DB:          rows,
		Catalog:     catalog.New(rows, cfg.Postgres.Schema),
		Publication: cfg.Publication,
		Tables:      names(cfg.Outbox.Tables),
		Ignore:      names(cfg.Outbox.IgnoreTables),
		Log:         log,
		Shape: shape.Config{
			Topic:      cfg.Topic.Name,
			Keys:       shape.KeysMode(cfg.Outbox.Keys),
			Ordering:   shape.OrderingMode(cfg.Outbox.OrderingKey),
			Tombstones: cfg.Outbox.Tombstones,
		},
	}
}

func names(tables []config.Table) []catalog.Name {
	ns := make([]catalog.Name, len(tables))
	for i, t := range tables {
		ns[i] = catalog.Name{Schema: t.Schema, Table: t.Name}
	}
	return ns
}

func buildPinner(cfg config.Config, rows *checkpoint.Store, k *kafkaSink, log zerolog.Logger) *relay.Pinner {
	return &relay.Pinner{
		Store:      rows,
		Partitions: k.partitions,
		Wanted: shard.Contract{
			PartitionCount: cfg.Partition.Count,
			Hash:           shard.Hash(cfg.Partition.Hash),
			Keys:           cfg.Outbox.Keys,
			OrderingKey:    cfg.Outbox.OrderingKey,
			ValueFormat:    "raw",
		},
		Log: log,
	}
}

// kafkaSink is the sink once the relay has opened it.
type kafkaSink struct{ *kafka.Sink }

func (k *kafkaSink) open(ctx context.Context, cfg config.Config, h sink.Handler, lost func(), log zerolog.Logger) (sink.Sink, error) {
	tls, err := cfg.Kafka.TLS.Load()
	if err != nil {
		return nil, err
	}
	password, err := cfg.Kafka.SASL.Secret()
	if err != nil {
		return nil, err
	}
	// The relay ends the sink itself, after what is in flight: ctx would cut it off.
	k.Sink, err = kafka.Open(context.WithoutCancel(ctx), kafka.Config{
		Brokers:     cfg.Kafka.Brokers,
		TLS:         tls,
		SASL:        kafka.SASL{Mechanism: cfg.Kafka.SASL.Mechanism, User: cfg.Kafka.SASL.Username, Password: password.Reveal()},
		Compression: cfg.Kafka.Compression,
		Lost:        lost,
		Log:         log,
	}, h)
	return k.Sink, err
}

const (
	// missingTries is how often a topic must be missing before it is: brokers learn of a new topic
	// one after the other.
	missingTries = 4
	missingPause = 300 * time.Millisecond
)

// partitions asks Kafka how many partitions a topic has. A topic that isn't there, or that we may
// not use, is a *relay.ContractError.
func (k *kafkaSink) partitions(ctx context.Context, topic string) (int32, error) {
	for try := 1; ; try++ {
		info, err := k.Topic(ctx, topic)
		var te *kafka.TopicError
		switch {
		case errors.Is(err, kafka.ErrTopicMissing) && try < missingTries:
		case errors.As(err, &te):
			reason := te.Err.Error()
			if te.Message != "" {
				reason += ": " + te.Message
			}
			return 0, &relay.ContractError{Topic: topic, Reason: reason, Remedy: "create the topic, or correct topic.name, kafka.brokers or the user's rights"}
		case errors.Is(err, kafka.ErrAuthentication):
			return 0, &relay.ContractError{Topic: topic, Reason: err.Error(), Remedy: "correct kafka.sasl or kafka.tls"}
		default:
			return info.Partitions, err
		}
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-time.After(missingPause):
		}
	}
}
