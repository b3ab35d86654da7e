package shape

import (
	"math"
	"strconv"

	"github.com/cdc-relay/cdc-relay/wal"
)

// keys are the parts of an event's identity, as pieces of the Shape's buffer. Pieces may
// overlap: a derived dedupe key contains the event type and the partition key.
type keys struct {
	dedupe, partition, eventType, ordering, position span
}

func (s *Shape) keys(r row, created created, pos wal.Position) (k keys, err error) {
	if r.at(r.l.eventType).Null {
		return k, s.reject(colEventType, "is NULL", "every event has a type")
	}
	if s.cfg.Keys == KeysStored {
		err = s.storedKeys(r, &k)
	} else {
		err = s.derivedKeys(r, created, &k)
	}
	if err != nil {
		return k, err
	}
	from := len(s.buf)
	s.buf = appendPosition(s.buf, pos)
	k.position = since(s.buf, from)
	if s.cfg.Ordering == OrderingCommit {
		k.ordering = k.position
	}
	return k, nil
}

// derivedKeys appends {event_type}:{entity_id}:{id}, whose pieces are the event type and
// the partition key, and the ordering key where it is the row's.
func (s *Shape) derivedKeys(r row, created created, k *keys) error {
	id := r.at(r.l.id)
	if id.Null {
		return s.reject(colID, "is NULL", "the keys are derived from it")
	}
	from := len(s.buf)
	s.buf = append(s.buf, r.at(r.l.eventType).Text...)
	k.eventType = since(s.buf, from)
	s.buf = append(s.buf, ':')
	if entity := r.at(r.l.entityID); !entity.Null {
		start := len(s.buf)
		s.buf = append(s.buf, entity.Text...)
		k.partition = since(s.buf, start)
	}
	s.buf = append(s.buf, ':')
	s.buf = append(s.buf, id.Text...)
	k.dedupe = since(s.buf, from)

	if s.cfg.Ordering != OrderingRow {
		return nil
	}
	if !created.there {
		return s.reject(colCreatedAt, "is NULL", "ordering_key: row needs it, ordering_key: commit does not")
	}
	n, ok := parseID(id.Text)
	if !ok {
		return s.reject(colID, "is "+quote(id.Text)+", not an integer of 64 bits",
			"ordering_key: row needs one, ordering_key: commit does not")
	}
	from = len(s.buf)
	s.buf = appendPadded(s.buf, created.at.ms(), 13)
	s.buf = append(s.buf, ':')
	s.buf = appendPadded(s.buf, n, 20)
	k.ordering = since(s.buf, from)
	return nil
}

// storedKeys takes the keys as the application wrote them.
func (s *Shape) storedKeys(r row, k *keys) error {
	take := func(column int, name string) (span, error) {
		v := r.at(column)
		if v.Null {
			return span{}, s.reject(name, "is NULL", "with keys: stored the application fills it")
		}
		from := len(s.buf)
		s.buf = append(s.buf, v.Text...)
		return since(s.buf, from), nil
	}
	var err error
	if k.dedupe, err = take(r.l.dedupeKey, colDedupeKey); err != nil {
		return err
	}
	if k.partition, err = take(r.l.partitionKey, colPartitionKey); err != nil {
		return err
	}
	if s.cfg.Ordering == OrderingRow {
		if k.ordering, err = take(r.l.orderingKey, colOrderingKey); err != nil {
			return err
		}
	}
	from := len(s.buf)
	s.buf = append(s.buf, r.at(r.l.eventType).Text...)
	k.eventType = since(s.buf, from)
	return nil
}

// appendPadded prints v as C's printf does for %0{width}d: zeros between the sign and the
// digits up to width in all, and never less than the number needs.
func appendPadded(b []byte, v int64, width int) []byte {
	u := uint64(v)
	if v < 0 {
		b = append(b, '-')
		width--
		u = -u // also right for the least number, which has no positive counterpart
	}
	return appendDigits(b, u, width)
}

// appendDigits prints u with at least width digits, of at most 20.
func appendDigits(b []byte, u uint64, width int) []byte {
	const zeros = "00000000000000000000"
	digits := [20]byte([]byte(zeros))
	i := len(digits)
	for ; u > 0; u /= 10 {
		i--
		digits[i] = byte('0' + u%10)
	}
	return append(b, digits[min(i, len(digits)-width):]...)
}

// appendPosition prints what Position.String does, without allocating.
func appendPosition(b []byte, p wal.Position) []byte {
	const hex = "0123456789ABCDEF"
	b = appendDigits(b, uint64(p.Lineage), 4)
	b = append(b, ':')
	for shift := 60; shift >= 0; shift -= 4 {
		b = append(b, hex[uint64(p.Commit)>>shift&15])
	}
	b = append(b, ':')
	return appendDigits(b, uint64(p.Seq), 10)
}

// parseID reads an integer as Postgres prints one: no plus sign, no leading zeros, no -0,
// so that two texts never are one number.
func parseID(text []byte) (n int64, ok bool) {
	digits := text
	negative := len(text) > 0 && text[0] == '-'
	if negative {
		digits = text[1:]
	}
	// 19 digits can't overflow 64 bits unsigned.
	if len(digits) == 0 || len(digits) > 19 || digits[0] == '0' && len(text) > 1 {
		return 0, false
	}
	var u uint64
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		u = u*10 + uint64(c-'0')
	}
	if negative {
		return int64(-u), u <= -math.MinInt64
	}
	return int64(u), u <= math.MaxInt64
}

// quote prints text for a message, in a bounded length.
func quote(text []byte) string {
	const most = 64
	if len(text) > most {
		return strconv.Quote(string(text[:most])) + "..."
	}
	return strconv.Quote(string(text))
}
