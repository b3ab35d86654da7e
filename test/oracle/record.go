package oracle

import (
	"crypto/sha256"
	"encoding/binary"
)

// Headers by which the oracle knows a record.
const (
	idHeader       = "dedupe_key"
	positionHeader = "position"
)

// Digest stands for the bytes of a key, a value or a list of headers: the first eight bytes
// of their SHA-256, which SQL can compute as well. Two values are reserved.
type Digest uint64

const (
	// Any is no digest: what it would stand for is not compared.
	Any Digest = 0
	// Null is the digest of a null key or value, which differs from that of an empty one.
	Null Digest = 1
)

// Sum returns the digest of b; nil is Null.
func Sum(b []byte) Digest {
	if b == nil {
		return Null
	}
	h := sha256.Sum256(b)
	return Digest(binary.BigEndian.Uint64(h[:]))
}

// Record is what the oracle keeps of one record of a topic.
type Record struct {
	ID        string // the dedupe_key header; empty where there is none
	Position  string // the position header; empty where there is none
	Partition int32
	Offset    int64
	Timestamp int64 // milliseconds since 1970
	Key       Digest
	Value     Digest
	Headers   Digest // of all of them, in their order
}

// Expected is an event that should be in the topic.
type Expected struct {
	ID string
	// Key groups the events whose order matters: the partition key, or the ID where that is
	// NULL.
	Key string
	// Partition is where the event belongs. -1: where the first record of its key is.
	Partition int32
	// Order is the event's place among those of its key.
	Order int64
	// RecordKey and Value are the digests that the record must have, or Any.
	RecordKey Digest
	Value     Digest
}
