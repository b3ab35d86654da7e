package oracle

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
)

// Headers by which the oracle knows a record.
const (
	idHeader       = "dedupe_key"
	orderingHeader = "ordering_key"
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
	ID        string   // the dedupe_key header; empty where there is none
	Position  Position // the position header; zero where there is none, or no position in it
	Offset    int64
	Timestamp int64 // milliseconds since 1970
	Key       Digest
	Value     Digest
	Headers   Digest // of all of them, in their order
	Promised  Digest // the same without the position, see Expected
	Partition int32
	Malformed bool // there is a position header, and no position in it
}

// ByPosition is the Order of an event of which only its position header tells where among
// those of its key it belongs.
const ByPosition int64 = math.MinInt64

// Expected is an event that should be in the topic.
type Expected struct {
	ID string
	// Key groups the events whose order matters: the partition key, or the ID where that is
	// NULL.
	Key string
	// Order is the event's place among those of its key, or ByPosition.
	Order int64
	// RecordKey and Value are the digests that the record must have, or Any.
	RecordKey Digest
	Value     Digest
	// Promised is the digest of the record's headers, or Any: of all names and values in their
	// order, but of what the table can't know. That is the value of position, and of
	// ordering_key where it is the same.
	Promised Digest
	// Timestamp is the record's, in milliseconds since 1970. 0 is not compared.
	Timestamp int64
	// Partition is where the event belongs. -1: where the first record of its key is.
	Partition int32
	// Txn is the same for two events only if one transaction inserted both, which therefore
	// have one commit LSN. 0 is not compared.
	Txn uint32
}
