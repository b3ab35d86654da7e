package relay

import (
	"crypto/sha256"
	"encoding/binary"
	"testing"
	"testing/synctest"
	"time"
)

// TestRecordIsWhereItsKeySays: an event goes to the partition of its partition key, and where that is
// NULL, to that of its dedupe key, under a null key.
func TestRecordIsWhereItsKeySays(t *testing.T) {
	place := func(key string) int32 {
		h := sha256.Sum256([]byte(key))
		return int32(binary.BigEndian.Uint64(h[:8]) % 12)
	}
	keyless := order("2", "")
	delete(keyless, "entity_id")
	for name, c := range map[string]struct {
		row map[string]string
		by  string
	}{
		"by its key":    {order("1", "order-17"), "order-17"},
		"without a key": {keyless, "order.created::2"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := rig(t, nil, &source{frames: script(begin(20), outbox, insert(1, c.row), commit(20, 28))})
				b.run(t)
				time.Sleep(time.Second)
				synctest.Wait()
				rs := b.recorder.Published("orders", place(c.by))
				if len(rs) != 1 {
					t.Fatalf("%d records on partition %d, which is that of %q", len(rs), place(c.by), c.by)
				}
				if key := rs[0].Key; c.by == "order-17" && string(key) != c.by || c.by != "order-17" && key != nil {
					t.Errorf("its key is %q", key)
				}
				if err := b.end(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
