package devenv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Broker is a Kafka cluster to publish to, real or in this process.
type Broker interface {
	Brokers() []string // addresses to bootstrap from, host:port
	Kind() string      // kafka or embedded
	Version() string
	Close() error
}

// topicLimit bounds the wait for a change of a topic to be seen.
const topicLimit = 30 * time.Second

// CreateTopic makes a topic with one replica and returns when each partition can be used.
func CreateTopic(ctx context.Context, brokers []string, topic string, partitions int32, configs map[string]string) error {
	return administer(brokers, func(admin *kadm.Client) error {
		set := make(map[string]*string, len(configs))
		for name, value := range configs {
			set[name] = kadm.StringPtr(value)
		}
		if _, err := admin.CreateTopic(ctx, partitions, 1, set, topic); err != nil {
			return fmt.Errorf("create topic %s: %w", topic, err)
		}
		usable := func(d kadm.TopicDetail) bool { return led(d, partitions) && hosted(ctx, admin, topic) }
		if err := waitTopic(ctx, admin, topic, usable); err != nil {
			return fmt.Errorf("create topic %s: %w", topic, err)
		}
		return nil
	})
}

// DeleteTopic deletes a topic and returns when the cluster names it no more.
func DeleteTopic(ctx context.Context, brokers []string, topic string) error {
	return administer(brokers, func(admin *kadm.Client) error {
		if _, err := admin.DeleteTopic(ctx, topic); err != nil {
			return fmt.Errorf("delete topic %s: %w", topic, err)
		}
		gone := func(d kadm.TopicDetail) bool { return errors.Is(d.Err, kerr.UnknownTopicOrPartition) }
		if err := waitTopic(ctx, admin, topic, gone); err != nil {
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

// waitTopic polls what the cluster says of a topic until it is as wished.
func waitTopic(ctx context.Context, admin *kadm.Client, topic string, wished func(kadm.TopicDetail) bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, topicLimit, fmt.Errorf("the cluster has not done it after %s", topicLimit))
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		found, err := admin.ListTopics(ctx, topic)
		if err == nil && wished(found[topic]) {
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

// hosted says whether the leaders know that they are: for a moment after the cluster has
// named them they still answer that they don't host the partition, and clients then wait.
func hosted(ctx context.Context, admin *kadm.Client, topic string) bool {
	ends, err := admin.ListEndOffsets(ctx, topic)
	return err == nil && ends.Error() == nil
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
