package simulation

import (
	"encoding/binary"
	"time"

	"github.com/cdc-relay/cdc-relay/wal"
)

// message builds a pgoutput message field by field, from the page "Logical Replication Message
// Formats" of the Postgres manual and from no code of the relay's.
type message []byte

func (m message) u8(v byte) message    { return append(m, v) }
func (m message) u16(v int) message    { return binary.BigEndian.AppendUint16(m, uint16(v)) }
func (m message) u32(v int) message    { return binary.BigEndian.AppendUint32(m, uint32(v)) }
func (m message) u64(v uint64) message { return binary.BigEndian.AppendUint64(m, v) }
func (m message) str(s string) message { return append(append(m, s...), 0) }

// pgEpoch is where Postgres counts time from.
var pgEpoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func micros(t time.Time) uint64 { return uint64(t.Sub(pgEpoch).Microseconds()) }

func beginMessage(commit wal.LSN, at time.Time, xid int) message {
	return message("B").u64(uint64(commit)).u64(micros(at)).u32(xid)
}

func commitMessage(commit, end wal.LSN, at time.Time) message {
	return message("C").u8(0).u64(uint64(commit)).u64(uint64(end)).u64(micros(at))
}

// table is a relation as it is from some transaction on.
type table struct {
	oid    int
	schema string
	name   string
	cols   []column
}

type column struct {
	name string
	oid  int
}

// OIDs of the types, from pg_type.dat.
const (
	typeInt8        = 20
	typeText        = 25
	typeTimestamptz = 1184
	typeJSONB       = 3802
)

// OIDs of the two tables of the publication.
const (
	oidOutbox = 16401
	oidAudit  = 16402
)

// The outbox in its three forms: as it was made, with a column more and another order, and
// renamed.
var outboxes = []*table{
	{oidOutbox, "public", "outbox", []column{
		{"id", typeInt8},
		{"entity_id", typeText},
		{"event_type", typeText},
		{"dedupe_key", typeText},
		{"partition_key", typeText},
		{"ordering_key", typeText},
		{"payload", typeJSONB},
		{"created_at", typeTimestamptz},
	}},
	{oidOutbox, "public", "outbox", []column{
		{"id", typeInt8},
		{"event_type", typeText},
		{"entity_id", typeText},
		{"note", typeText},
		{"created_at", typeTimestamptz},
		{"payload", typeJSONB},
	}},
	{oidOutbox, "public", "outbox_events", []column{
		{"created_at", typeTimestamptz}, {"payload", typeJSONB}, {"event_type", typeText}, {"entity_id", typeText}, {"id", typeInt8},
	}},
}

var audit = &table{oidAudit, "public", "audit", []column{{"id", typeInt8}, {"what", typeText}}}

func (t *table) message() message {
	m := message("R").u32(t.oid).str(t.schema).str(t.name).u8('d').u16(len(t.cols))
	for _, c := range t.cols {
		m = m.u8(0).str(c.name).u32(c.oid).u32(-1)
	}
	return m
}

// insert makes a row; what values doesn't name is NULL.
func (t *table) insert(values map[string]string) message {
	m := message("I").u32(t.oid).u8('N').u16(len(t.cols))
	for _, c := range t.cols {
		v, ok := values[c.name]
		if !ok {
			m = m.u8('n')
			continue
		}
		m = append(m.u8('t').u32(len(v)), v...)
	}
	return m
}
