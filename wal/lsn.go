package wal

import (
	"database/sql/driver"
	"fmt"
)

// LSN is a position in the write-ahead log, in bytes since its beginning. The
// end LSN of a commit is the first byte after its record. Zero is no position.
type LSN uint64

const hexDigits = "0123456789ABCDEF"

// String prints an LSN as Postgres does: two upper-case hexadecimal numbers of at
// most eight digits, without leading zeros.
func (l LSN) String() string {
	var b [17]byte
	return string(l.appendText(b[:0]))
}

func (l LSN) appendText(b []byte) []byte {
	b = appendHex(b, uint32(l>>32))
	b = append(b, '/')
	return appendHex(b, uint32(l))
}

func appendHex(b []byte, v uint32) []byte {
	shift := 28
	for shift > 0 && v>>shift == 0 {
		shift -= 4
	}
	for ; shift >= 0; shift -= 4 {
		b = append(b, hexDigits[v>>shift&0xF])
	}
	return b
}

// ParseLSN reads an LSN exactly as Postgres accepts it for pg_lsn: one to eight
// hexadecimal digits, a slash, one to eight hexadecimal digits, and nothing else.
func ParseLSN(s string) (LSN, error) {
	hi, rest, ok := cutHex(s)
	if ok && len(rest) > 0 && rest[0] == '/' {
		lo, rest, ok := cutHex(rest[1:])
		if ok && rest == "" {
			return LSN(hi)<<32 | LSN(lo), nil
		}
	}
	return 0, fmt.Errorf("parse LSN %q: want one to eight hexadecimal digits, a slash, and one to eight more, like 16/B374D848", s)
}

// cutHex takes the hexadecimal number that s begins with. A ninth digit stays in rest, where
// no caller accepts it.
func cutHex(s string) (v uint32, rest string, ok bool) {
	n := 0
	for n < len(s) && n < 8 {
		var d byte
		switch c := s[n]; {
		case '0' <= c && c <= '9':
			d = c - '0'
		case 'a' <= c && c <= 'f':
			d = c - 'a' + 10
		case 'A' <= c && c <= 'F':
			d = c - 'A' + 10
		default:
			return v, s[n:], n > 0
		}
		v = v<<4 | uint32(d)
		n++
	}
	return v, s[n:], n > 0
}

// MarshalText writes what String prints.
func (l LSN) MarshalText() ([]byte, error) { return l.appendText(nil), nil }

// UnmarshalText reads what ParseLSN accepts.
func (l *LSN) UnmarshalText(text []byte) error {
	v, err := ParseLSN(string(text))
	if err != nil {
		return err
	}
	*l = v
	return nil
}

// Scan reads an LSN from a column of type text, or of pg_lsn in text format. NULL is an
// error: where it has a meaning, scan into a *LSN pointer or into sql.Null[LSN].
func (l *LSN) Scan(src any) error {
	switch v := src.(type) {
	case string:
		return l.UnmarshalText([]byte(v))
	case []byte:
		return l.UnmarshalText(v)
	case nil:
		return fmt.Errorf("scan LSN: NULL is no position")
	default:
		return fmt.Errorf("scan LSN: %T is neither text nor bytes; select lsn::text", src)
	}
}

// Value hands the LSN to a query as text; cast the parameter there: $1::text::pg_lsn.
func (l LSN) Value() (driver.Value, error) { return l.String(), nil }
