package shard

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/cdc-relay/cdc-relay/wal"
)

// Contract is what decides the identity of a topic's events from one position on: with it,
// an event gets the same partition, keys and value in every publication. It is stored in
// the database before the first record that rests on it, and never changed afterwards; a
// new configuration is a new contract.
type Contract struct {
	Topic string
	No    int // counts the contracts of a topic, from 1
	// Lineage and From are the first position at which it is in force. They mean nothing
	// while it is pending.
	Lineage uint16
	From    wal.LSN
	// Pending: it has been written down, and its position is not known yet. It is never in
	// force.
	Pending bool

	PartitionCount int32
	Hash           Hash
	Keys           string // the names that decode/shape gives to its modes
	OrderingKey    string
	Mapping        []byte // JSON object that maps columns; empty where a preset does
	ValueFormat    string
}

// Contracts are the contracts of any topics, in any order.
type Contracts []Contract

// At returns the contract in force for topic at the position (lineage, at): the one with
// the greatest (lineage, from) that is not past it, and among those of one position the
// last made. ok is false where there is none. A contract that begins later never changes
// the answer for a position before it.
func (cs Contracts) At(topic string, lineage uint16, at wal.LSN) (c Contract, ok bool) {
	best := -1
	for i := range cs {
		if c := &cs[i]; c.Topic != topic || c.Pending || after(c.Lineage, c.From, lineage, at) {
			continue
		}
		if best < 0 || cs[i].supersedes(&cs[best]) {
			best = i
		}
	}
	if best < 0 {
		return Contract{}, false
	}
	return cs[best], true
}

func (c *Contract) supersedes(d *Contract) bool {
	if c.Lineage == d.Lineage && c.From == d.From {
		return c.No > d.No
	}
	return after(c.Lineage, c.From, d.Lineage, d.From)
}

// after says whether the position (l, a) lies after (m, b). Lineages come first: LSNs are
// reused from one to the next.
func after(l uint16, a wal.LSN, m uint16, b wal.LSN) bool {
	if l != m {
		return l > m
	}
	return a > b
}

// Diff says how wanted differs from inForce in what decides identity, one sentence for each
// difference, in a fixed order; none where events come out the same. Topics, numbers and
// positions are not compared.
func Diff(inForce, wanted Contract) []string {
	var ds []string
	differ := func(what string, a, b any) {
		if a != b {
			ds = append(ds, fmt.Sprintf("%s is %v in force, %v in the configuration", what, a, b))
		}
	}
	differ("partition count", inForce.PartitionCount, wanted.PartitionCount)
	differ("hash", inForce.Hash, wanted.Hash)
	differ("keys", inForce.Keys, wanted.Keys)
	differ("ordering_key", inForce.OrderingKey, wanted.OrderingKey)
	differ("mapping", canonicalMapping(inForce.Mapping), canonicalMapping(wanted.Mapping))
	differ("value format", inForce.ValueFormat, wanted.ValueFormat)
	return ds
}

// canonicalMapping prints a mapping so that equal content is equal text: Postgres prints
// jsonb with its own order of members and its own spaces. What isn't JSON stays as it is.
func canonicalMapping(m []byte) string {
	if !json.Valid(m) {
		if len(m) == 0 {
			return "none"
		}
		return string(m)
	}
	d := json.NewDecoder(bytes.NewReader(m))
	d.UseNumber() // float64 would take two long numbers for one
	var v any
	if err := d.Decode(&v); err != nil {
		return string(m)
	}
	if o, ok := v.(map[string]any); v == nil || ok && len(o) == 0 {
		return "none"
	}
	text, err := json.Marshal(v)
	if err != nil {
		return string(m)
	}
	return string(text)
}
