package relay

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/cdc-relay/cdc-relay/shard"
)

// contractStore is the table of contracts in memory.
type contractStore struct {
	rows   shard.Contracts
	pins   int
	faster *shard.Contract // pinned by another relay between the look and the pin
}

func (s *contractStore) Contracts(context.Context, string) (shard.Contracts, error) {
	return s.rows, nil
}

func (s *contractStore) PinContract(_ context.Context, c shard.Contract) (shard.Contract, error) {
	s.pins++
	if s.faster != nil {
		return *s.faster, nil
	}
	if len(s.rows) > 0 {
		return s.rows[0], nil
	}
	s.rows = append(s.rows, c)
	return c, nil
}

func TestPin(t *testing.T) {
	pinned := func(n int32) shard.Contract {
		return shard.Contract{Topic: "orders", No: 1, Lineage: 1, PartitionCount: n, Hash: shard.SHA256, Keys: "derived", OrderingKey: "row", ValueFormat: "raw"}
	}
	wanted := func(n int32) shard.Contract {
		c := pinned(n)
		c.Topic, c.No, c.Lineage = "", 0, 0
		return c
	}
	other := pinned(12)
	other.OrderingKey = "commit"
	for _, c := range []struct {
		name   string
		has    int32
		stored shard.Contracts
		wanted shard.Contract
		faster *shard.Contract
		count  int32  // pinned, where it works
		fails  string // in the error, where it doesn't
	}{
		{name: "first publication takes the topic's count", has: 7, wanted: wanted(0), count: 7},
		{name: "first publication takes the configured count", has: 12, wanted: wanted(8), count: 8},
		{name: "a topic that grew changes nothing", has: 12, stored: shard.Contracts{pinned(4)}, wanted: wanted(0), count: 4},
		{name: "configured as pinned", has: 12, stored: shard.Contracts{pinned(4)}, wanted: wanted(4), count: 4},
		{name: "topic smaller than configured", has: 3, wanted: wanted(8), fails: "it has 3 partitions, and the contract counts on 8"},
		{name: "topic smaller than pinned", has: 3, stored: shard.Contracts{pinned(4)}, wanted: wanted(0), fails: "it has 3 partitions, and the contract counts on 4"},
		{name: "configured otherwise than pinned", has: 12, stored: shard.Contracts{pinned(4)}, wanted: wanted(12), fails: "4"},
		{name: "other ordering key", has: 12, stored: shard.Contracts{other}, wanted: wanted(0), fails: "commit"},
		{name: "another relay pinned otherwise", has: 12, wanted: wanted(0), faster: &other, fails: "commit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := &contractStore{rows: c.stored, faster: c.faster}
			p := &Pinner{
				Store: store, Wanted: c.wanted, Log: zerolog.Nop(),
				Partitions: func(context.Context, string) (int32, error) { return c.has, nil },
			}
			got, err := p.Pin(t.Context(), "orders")
			if c.fails != "" {
				var ce *ContractError
				if !errors.As(err, &ce) || ce.ExitCode() != 2 || !strings.Contains(err.Error(), c.fails) {
					t.Fatalf("Pin: %v, want a ContractError that says %q", err, c.fails)
				}
				return
			}
			if err != nil || len(got) != 1 || got[0].PartitionCount != c.count {
				t.Fatalf("Pin: %v, %v; want %d partitions", got, err, c.count)
			}
			if store.pins != 1 {
				t.Errorf("written %d times; what is stored may not be durable yet", store.pins)
			}
			if len(store.rows) != 1 || store.rows[0].PartitionCount != c.count {
				t.Errorf("stored %v", store.rows)
			}
		})
	}
}
