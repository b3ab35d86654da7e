package shard_test

import (
	"fmt"

	"github.com/cdc-relay/cdc-relay/shard"
)

func ExamplePartition() {
	fmt.Println(shard.Partition(shard.SHA256, []byte("order:A-1"), 12))
	fmt.Println(shard.Partition(shard.SHA256, []byte("order:A-2"), 12))
	// Output:
	// 0
	// 10
}

// A contract that begins later changes nothing for what lies before it.
func ExampleContracts_At() {
	cs := shard.Contracts{
		{Topic: "orders", No: 1, Lineage: 1, From: 0, PartitionCount: 12, Hash: shard.SHA256},
		{Topic: "orders", No: 2, Lineage: 1, From: 0x2000, PartitionCount: 24, Hash: shard.SHA256},
	}
	before, _ := cs.At("orders", 1, 0x1fff)
	after, _ := cs.At("orders", 1, 0x2000)
	fmt.Println(before.PartitionCount, after.PartitionCount)
	fmt.Println(shard.Diff(before, after))
	// Output:
	// 12 24
	// [partition count is 12 in force, 24 in the configuration]
}
