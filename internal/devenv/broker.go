package devenv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Broker is a Kafka cluster to publish to, real or in this process.
type Broker interface {
	Brokers() []string // addresses to bootstrap from, host:port
	Kind() string      // kafka or embedded
	Version() string
	Close() error
}

// leaderLimit bounds the wait for the leaders of a new topic.
const leaderLimit = 30 * time.Second

// CreateTopic makes a topic with one replica and returns when each partition has a leader.
func CreateTopic(ctx context.Context, brokers []string, topic string, partitions int32, configs map[string]string) error {
	return administer(brokers, func(admin *kadm.Client) error {
		set := make(map[string]*string, len(configs))
		for name, value := range configs {
			set[name] = kadm.StringPtr(value)
		}
		if _, err := admin.CreateTopic(ctx, partitions, 1, set, topic); err != nil {
			return fmt.Errorf("create topic %s: %w", topic, err)
		}
		if err := waitLeaders(ctx, admin, topic, partitions); err != nil {
			return fmt.Errorf("create topic %s: %w", topic, err)
		}
		return nil
	})
}

// DeleteTopic deletes a topic.
func DeleteTopic(ctx context.Context, brokers []string, topic string) error {
	return administer(brokers, func(admin *kadm.Client) error {
		if _, err := admin.DeleteTopic(ctx, topic); err != nil {
			return fmt.Errorf("delete topic %s: %w", topic, err)
		}
		return nil
	})
}

func administer(brokers []string, fn func(*kadm.Client) error) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		return fmt.Errorf("make a Kafka client: %w", err)
	}
	defer client.Close()
	return fn(kadm.NewClient(client))
}

func waitLeaders(ctx context.Context, admin *kadm.Client, topic string, partitions int32) error {
	ctx, cancel := context.WithTimeoutCause(ctx, leaderLimit, fmt.Errorf("no leader for each partition after %s", leaderLimit))
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		found, err := admin.ListTopics(ctx, topic)
		if err == nil && led(found[topic], partitions) {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}

// led says whether all partitions are there and have a leader.
func led(d kadm.TopicDetail, partitions int32) bool {
	all := d.Partitions.Sorted()
	return d.Err == nil && len(all) == int(partitions) &&
		!slices.ContainsFunc(all, func(p kadm.PartitionDetail) bool { return p.Err != nil || p.Leader < 0 })
}

// answers returns nil when a cluster serves clients: it names a broker that isn't fenced.
func answers(ctx context.Context, brokers []string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return administer(brokers, func(admin *kadm.Client) error {
		meta, err := admin.BrokerMetadata(ctx)
		if err != nil {
			return err
		}
		if len(meta.Brokers) == 0 {
			return errors.New("the cluster names no broker")
		}
		return nil
	})
}
