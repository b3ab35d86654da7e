package wal

import (
	"encoding/binary"
	"fmt"
	"time"
)

// Layout of the messages inside CopyData, from the page "Streaming Replication Protocol" of the
// Postgres manual. All numbers are big-endian.
const (
	kindData      = 'w' // start LSN, end LSN, server's clock, pgoutput message
	kindKeepalive = 'k' // end LSN, server's clock, reply requested
	kindStatus    = 'r' // write, flush and apply LSN, client's clock, reply requested

	dataHeader    = 1 + 8 + 8 + 8
	keepaliveSize = 1 + 8 + 8 + 1
	statusSize    = 1 + 8 + 8 + 8 + 8 + 1
)

// pgEpochMicros is 2000-01-01 in microseconds since 1970: Postgres counts time from there.
const pgEpochMicros = 946684800 * 1_000_000

// ParseFrame reads the payload of one CopyData message of the replication stream. The frame's
// Data points into payload. reply says that a keepalive asks for a status at once.
func ParseFrame(payload []byte) (f Frame, reply bool, err error) {
	switch {
	case len(payload) >= dataHeader && payload[0] == kindData:
		// Both LSNs of the header are the same in logical replication, and 0 for a Relation.
		f.End = LSN(binary.BigEndian.Uint64(payload[1:]))
		f.At = serverTime(payload[17:])
		f.Data = payload[dataHeader:len(payload):len(payload)]
	case len(payload) == keepaliveSize && payload[0] == kindKeepalive:
		f.End = LSN(binary.BigEndian.Uint64(payload[1:]))
		f.At = serverTime(payload[9:])
		reply = payload[17] != 0
	case len(payload) == 0:
		return f, false, fmt.Errorf("replication message is empty")
	default:
		return f, false, fmt.Errorf("replication message %q of %d bytes is neither data nor a keepalive", payload[:1], len(payload))
	}
	return f, reply, nil
}

func serverTime(b []byte) time.Time {
	return time.UnixMicro(int64(binary.BigEndian.Uint64(b)) + pgEpochMicros).UTC()
}

// putStatus writes a standby status update: pos is confirmed as written, flushed and applied.
// All three are always named, since a field left at 0 would be read as a position by some.
func putStatus(b *[statusSize]byte, pos LSN, now time.Time, reply bool) {
	b[0] = kindStatus
	binary.BigEndian.PutUint64(b[1:], uint64(pos))
	binary.BigEndian.PutUint64(b[9:], uint64(pos))
	binary.BigEndian.PutUint64(b[17:], uint64(pos))
	binary.BigEndian.PutUint64(b[25:], uint64(now.UnixMicro()-pgEpochMicros))
	b[33] = 0
	if reply {
		b[33] = 1
	}
}
