package shard

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
)

// Hash names a partition function. The name is stored in the contract, so it is as frozen
// as the function.
type Hash string

// SHA256 takes the first eight bytes of SHA-256(key), as a big-endian unsigned number,
// modulo the number of partitions.
const SHA256 Hash = "sha256"

// ErrNotSupportedYet is wrapped by ParseHash's error for a hash that is planned and can't be
// chosen in this version.
var ErrNotSupportedYet = errors.New("not supported yet")

// ParseHash reads the name of a hash, exactly as it is written in a configuration or a
// contract.
func ParseHash(name string) (Hash, error) {
	switch name {
	case string(SHA256):
		return SHA256, nil
	case "murmur2", "fnv1a":
		return "", fmt.Errorf("partition hash %q: %w; use %q", name, ErrNotSupportedYet, SHA256)
	default:
		return "", fmt.Errorf("partition hash %q: unknown; use %q", name, SHA256)
	}
}

// Partition returns the partition of key among n, from 0 to n-1. A nil key counts as an
// empty one: what stands in for a key that is NULL is the caller's choice.
//
// It panics where n is below 1 or h didn't come from ParseHash: both are mistakes of the
// program, and any partition returned for them would move events for ever.
func Partition(h Hash, key []byte, n int32) int32 {
	if n < 1 {
		panic("shard: Partition among " + strconv.Itoa(int(n)) + " partitions")
	}
	if h != SHA256 {
		panic("shard: Partition by unknown hash " + strconv.Quote(string(h)))
	}
	sum := sha256.Sum256(key)
	return int32(binary.BigEndian.Uint64(sum[:8]) % uint64(n))
}
