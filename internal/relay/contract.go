package relay

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"github.com/cdc-relay/cdc-relay/shard"
)

// ContractStore keeps contracts durably.
type ContractStore interface {
	// Contracts returns those of a topic, none where it was never published to.
	Contracts(ctx context.Context, topic string) (shard.Contracts, error)
	// PinContract stores a first contract, durably when it returns, or finds the one that is there;
	// it returns what is stored.
	PinContract(ctx context.Context, c shard.Contract) (shard.Contract, error)
}

// Pinner holds the configuration against the contracts, and makes the first one of a topic.
type Pinner struct {
	Store ContractStore
	// Partitions asks Kafka how many partitions a topic has now.
	Partitions func(ctx context.Context, topic string) (int32, error)
	// Wanted is the configuration: a contract without topic, number and position. A
	// PartitionCount of 0 takes what is in force, or the topic's own at the first publication.
	Wanted shard.Contract
	Log    zerolog.Logger
}

// ContractError says that the configuration would give events another identity than the contract in
// force, or that the topic can't fulfil it.
type ContractError struct {
	Topic  string
	Reason string
	Remedy string
}

func (e *ContractError) Error() string {
	return fmt.Sprintf("publish to topic %q: %s", e.Topic, e.Reason)
}

// Hint is what an operator can do.
func (e *ContractError) Hint() string { return e.Remedy }

// ExitCode is that of a configuration that can't be followed.
func (e *ContractError) ExitCode() int { return 2 }

// Check compares configuration, contract and topic, and pins nothing.
func (p *Pinner) Check(ctx context.Context, topic string) error {
	_, _, err := p.look(ctx, topic)
	return err
}

// Pin implements Contracts. It writes the first contract also where one is stored: the write finds
// it, and waits until it is as durable as the server makes things. A relay that was cut off while it
// waited for that may have left it behind.
func (p *Pinner) Pin(ctx context.Context, topic string) (shard.Contracts, error) {
	cs, first, err := p.look(ctx, topic)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(cs, func(c shard.Contract) bool { return c.No == 1 })
	if i >= 0 {
		first = cs[i]
	}
	c, err := p.Store.PinContract(ctx, first)
	if err != nil {
		return nil, err
	}
	if i >= 0 {
		return cs, nil
	}
	if ds := shard.Diff(c, first); len(ds) > 0 { // another relay was faster, with another configuration
		return nil, p.differs(topic, ds)
	}
	p.Log.Info().Str("topic", topic).Int32("partitions", c.PartitionCount).Str("hash", string(c.Hash)).Msg("contract 1 is pinned")
	return append(cs, c), nil
}

// look returns the topic's contracts and, where there are none, the first one as it would be.
func (p *Pinner) look(ctx context.Context, topic string) (shard.Contracts, shard.Contract, error) {
	has, err := p.Partitions(ctx, topic)
	if err != nil {
		return nil, shard.Contract{}, err
	}
	cs, err := p.Store.Contracts(ctx, topic)
	if err != nil {
		return nil, shard.Contract{}, err
	}
	wanted := p.Wanted
	wanted.Topic, wanted.No, wanted.Lineage = topic, 1, 1
	inForce, ok := newest(cs)
	if wanted.PartitionCount == 0 {
		wanted.PartitionCount = has
		if ok {
			wanted.PartitionCount = inForce.PartitionCount
		}
	}
	if ok {
		if ds := shard.Diff(inForce, wanted); len(ds) > 0 {
			return nil, wanted, p.differs(topic, ds)
		}
	}
	switch {
	case has < wanted.PartitionCount:
		return nil, wanted, &ContractError{
			Topic:  topic,
			Reason: fmt.Sprintf("it has %d partitions, and the contract counts on %d", has, wanted.PartitionCount),
			Remedy: "add partitions to the topic; a smaller count can't hold the keys where they are",
		}
	case has > wanted.PartitionCount:
		p.Log.Warn().Str("topic", topic).Int32("partitions", has).Int32("pinned", wanted.PartitionCount).
			Msg("the topic has more partitions than the contract uses; the others stay empty, no key moves")
	}
	return cs, wanted, nil
}

func newest(cs shard.Contracts) (c shard.Contract, ok bool) {
	for i := range cs {
		if !cs[i].Pending && (!ok || cs[i].No > c.No) {
			c, ok = cs[i], true
		}
	}
	return c, ok
}

func (p *Pinner) differs(topic string, ds []string) error {
	return &ContractError{
		Topic:  topic,
		Reason: "the configuration differs from the contract in force: " + strings.Join(ds, "; "),
		Remedy: "go back to what is in force: a changed contract moves keys, and can't be switched to yet",
	}
}
