package shard

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"math/big"
	"reflect"
	"slices"
	"testing"

	"github.com/cdc-relay/cdc-relay/wal"
)

// FuzzPartition computes the partition in numbers of any size.
func FuzzPartition(f *testing.F) {
	f.Fuzz(func(t *testing.T, key []byte, n int32) {
		if n < 1 {
			return
		}
		sum := sha256.Sum256(key)
		want := new(big.Int).Mod(new(big.Int).SetBytes(sum[:8]), big.NewInt(int64(n))).Int64()
		if got := Partition(SHA256, key, n); int64(got) != want {
			t.Errorf("key %q is in partition %d of %d, want %d", key, got, n, want)
		}
	})
}

// FuzzContractsAt reads four bytes as a contract, looks for the one in force by sorting all that
// have begun, and adds one that begins later.
func FuzzContractsAt(f *testing.F) {
	f.Fuzz(func(t *testing.T, stored []byte, topic bool, lineage uint16, at uint64) {
		topics := map[bool]string{false: "a", true: "b"}
		var cs Contracts
		for b := range slices.Chunk(stored, 4) {
			if len(b) < 4 || len(cs) == 50 {
				break
			}
			c := contract(topics[b[0]&1 == 1], len(cs)+1, uint16(b[1]), wal.LSN(b[2])<<8|wal.LSN(b[3]))
			c.Pending = b[0]&2 != 0
			cs = append(cs, c)
		}
		begun := slices.DeleteFunc(slices.Clone(cs), func(c Contract) bool {
			return c.Topic != topics[topic] || c.Pending || c.Lineage > lineage || c.Lineage == lineage && uint64(c.From) > at
		})
		slices.SortFunc(begun, func(a, b Contract) int {
			pa, pb := wal.Position{Lineage: a.Lineage, Commit: a.From, Seq: uint32(a.No)}, wal.Position{Lineage: b.Lineage, Commit: b.From, Seq: uint32(b.No)}
			return pa.Compare(pb)
		})
		var want Contract
		if len(begun) > 0 {
			want = begun[len(begun)-1]
		}
		check := func(cs Contracts) {
			t.Helper()
			if got, ok := cs.At(topics[topic], lineage, wal.LSN(at)); !reflect.DeepEqual(got, want) || ok != (len(begun) > 0) {
				t.Errorf("at %d %d: contract %+v, %t, want %+v\n%+v", lineage, at, got, ok, want, cs)
			}
		}
		check(cs)
		slices.Reverse(cs)
		check(cs)
		if at < 1<<64-1 {
			check(append(cs, contract(topics[topic], 1000, lineage, wal.LSN(at+1))))
		}
		if lineage < 1<<16-1 {
			check(append(cs, contract(topics[topic], 1000, lineage+1, 0)))
		}
	})
}

// FuzzDiffMapping compares two mappings: they are one exactly where they have the same content,
// numbers digit by digit, whatever their spaces and the order of their members are.
func FuzzDiffMapping(f *testing.F) {
	content := func(b []byte) (v any, ok bool) {
		d := json.NewDecoder(bytes.NewReader(b))
		d.UseNumber()
		return v, json.Valid(b) && d.Decode(&v) == nil
	}
	f.Fuzz(func(t *testing.T, x, y []byte) {
		a, b := contract("t", 1, 1, 0), contract("t", 1, 1, 0)
		a.Mapping, b.Mapping = x, y
		if d := Diff(a, a); len(d) > 0 {
			t.Errorf("mapping %q differs from itself: %q", x, d)
		}
		there, back := Diff(a, b), Diff(b, a)
		if len(there) != len(back) {
			t.Errorf("%q and %q differ in one direction: %q, %q", x, y, there, back)
		}
		vx, okX := content(x)
		vy, okY := content(y)
		if !okX || !okY {
			return
		}
		none := func(v any) bool { o, is := v.(map[string]any); return v == nil || is && len(o) == 0 }
		if same := reflect.DeepEqual(vx, vy) || none(vx) && none(vy); same != (len(there) == 0) {
			t.Errorf("%q and %q: differences %q, want none: %t", x, y, there, same)
		}
		// As Postgres prints it again.
		var printed bytes.Buffer
		if err := json.Indent(&printed, x, " ", "\t"); err != nil {
			t.Fatal(err)
		}
		if a.Mapping = printed.Bytes(); len(Diff(a, b)) != len(there) {
			t.Errorf("%q differs from %q, and not when it is printed as %q", y, x, a.Mapping)
		}
	})
}
