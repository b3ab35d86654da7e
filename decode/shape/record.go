package shape

import (
	"encoding/hex"
	"time"
)

// window is how far created_at may lie from the commit time, either way, to be the record's
// timestamp. Kafka drops segments and rejects records by timestamp, so a wrong clock of the
// application must not reach it.
const window = 24 * time.Hour

// far is a distance in seconds that needs no exact look to lie outside of the window.
const far = int64(2 * window / time.Second)

// created is created_at where the row has one.
type created struct {
	at    instant
	there bool
}

func (s *Shape) createdAt(r row) (created, error) {
	v := r.at(r.l.createdAt)
	if v.Null {
		return created{}, nil
	}
	at, zone, ok := parseTimestamp(v.Text)
	if !ok || zone != zoneAny && r.l.zone != zoneAny && zone != r.l.zone {
		cause := "is " + quote(v.Text) + ", not a time as Postgres prints it"
		if t := string(v.Text); t == "infinity" || t == "-infinity" {
			cause = "is " + t
		}
		return created{}, s.reject(colCreatedAt, cause, "")
	}
	return created{at, true}, nil
}

// recordTime is created_at where it lies within the window around the commit, else the
// commit time; in milliseconds since 1970, floored.
func recordTime(c created, commit time.Time) int64 {
	if c.there {
		// Seconds first: the distance of two arbitrary times overflows a Duration.
		if ds := c.at.sec - commit.Unix(); ds >= -far && ds <= far {
			d := time.Duration(ds)*time.Second + time.Duration(int(c.at.usec)*1000-commit.Nanosecond())
			if d >= -window && d <= window {
				return c.at.ms()
			}
		}
	}
	return commit.UnixMilli()
}

// checkValue returns the length of the record's value, 0 where it is null, or why there is
// none.
func (s *Shape) checkValue(r row) (int, error) {
	v := r.at(r.l.payload)
	if v.Null {
		if !s.cfg.Tombstones {
			return 0, s.reject(colPayload, "is NULL", "with tombstones: true it would be a null value")
		}
		return 0, nil
	}
	if !r.l.payloadBytea {
		return len(v.Text), nil
	}
	digits, ok := byteaDigits(v.Text)
	if !ok {
		return 0, s.reject(colPayload, "is bytea, and not in its hex form", "the connection must have bytea_output = hex")
	}
	return len(digits) / 2, nil
}

// copyValue fills value, of the length that checkValue found, with the payload.
func (s *Shape) copyValue(value []byte, r row) {
	v := r.at(r.l.payload)
	if !r.l.payloadBytea || v.Null {
		copy(value, v.Text)
		return
	}
	_, _ = hex.Decode(value, v.Text[2:]) // can't fail: checkValue has seen every digit
}

// byteaDigits returns the digits of a bytea in its hex form, \x0aff.
func byteaDigits(text []byte) (digits []byte, ok bool) {
	if len(text) < 2 || len(text)%2 != 0 || text[0] != '\\' || text[1] != 'x' {
		return nil, false
	}
	for _, c := range text[2:] {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return nil, false
		}
	}
	return text[2:], true
}
