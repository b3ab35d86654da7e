package simulation

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"
)

// event is a row of the outbox, and what must come of it. It shares no arithmetic with the relay.
type event struct {
	txn    *txn
	seq    int // number in its transaction, over the inserts of all tables
	id     int
	entity *string
	kind   string
	made   time.Time

	want record
	// shard is what the partition is computed from.
	shard []byte

	sent      int // times that Postgres sent the row
	delivered int // times that a relay took the record over for Kafka
	copies    int // times that it is in the log
	acked     int // times that the sink said so
	taken     int // the life that took it last
}

// record is what a consumer sees.
type record struct {
	key     []byte // nil: null
	value   []byte
	headers []header
	ms      int64
}

type header struct {
	key   string
	value []byte
}

func (r *record) bytes() int {
	n := len(r.key) + len(r.value)
	for _, h := range r.headers {
		n += len(h.key) + len(h.value)
	}
	return n
}

// newEvent computes what must be published, once the commit's place is known.
func newEvent(t *txn, seq, id int, entity *string, kind, payload string, made time.Time) *event {
	e := &event{txn: t, seq: seq, id: id, entity: entity, kind: kind, made: made}
	key := ""
	if entity != nil {
		key = *entity
		e.want.key = []byte(key)
	}
	dedupe := fmt.Sprintf("%s:%s:%d", kind, key, id)
	e.shard = []byte(dedupe)
	if entity != nil {
		e.shard = e.want.key
	}
	e.want.ms = made.UnixMilli()
	e.want.value = []byte(payload)
	for _, h := range [][2]string{
		{"event_id", dedupe},
		{"event_type", kind},
		{"dedupe_key", dedupe},
		{"ordering_key", fmt.Sprintf("%013d:%020d", made.UnixMilli(), id)},
		{"position", e.position()},
	} {
		e.want.headers = append(e.want.headers, header{h[0], []byte(h[1])})
	}
	return e
}

func (e *event) position() string {
	return fmt.Sprintf("0001:%016X:%010d", uint64(e.txn.commit), e.seq)
}

// order names the queue in which the event must stay: its key's.
func (e *event) order() string {
	if e.entity == nil {
		return "-" + string(e.shard)
	}
	return "=" + *e.entity
}

// row is the event as its table holds it. Key columns that the application filled mean nothing.
func (e *event) row(payload string) map[string]string {
	values := map[string]string{
		"id": fmt.Sprint(e.id), "event_type": e.kind, "payload": payload, "note": "x", "dedupe_key": "placeholder",
		"created_at": e.made.UTC().Format("2006-01-02 15:04:05.999999-07"),
	}
	if e.entity != nil {
		values["entity_id"] = *e.entity
	}
	return values
}

// home is the partition of the event among n.
func (e *event) home(n int) int {
	sum := sha256.Sum256(e.shard)
	return int(binary.BigEndian.Uint64(sum[:8]) % uint64(n))
}

func (e *event) String() string { return fmt.Sprintf("%s (%s)", e.position(), e.shard) }
