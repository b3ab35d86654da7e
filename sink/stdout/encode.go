package stdout

import (
	"encoding/base64"
	"strconv"
	"unicode/utf8"

	"github.com/cdc-relay/cdc-relay/sink"
)

// appendLine appends a record's line, newline included.
func appendLine(b []byte, r *sink.Record) []byte {
	b = append(b, '{')
	b = appendBytes(b, "topic", []byte(r.Topic))
	b = append(b, `,"partition":`...)
	b = strconv.AppendInt(b, int64(r.Partition), 10)
	b = append(b, `,"position":"`...)
	b = append(b, r.Position.String()...)
	b = append(b, `",`...)
	b = appendBytes(b, "dedupe_key", []byte(r.DedupeKey))
	b = append(b, `,"timestamp_ms":`...)
	b = strconv.AppendInt(b, r.TimestampMs, 10)
	b = append(b, ',')
	b = appendBytes(b, "key", r.Key)
	b = append(b, ',')
	b = appendBytes(b, "value", r.Value)
	b = append(b, `,"headers":[`...)
	for i := range r.Headers {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '{')
		b = appendBytes(b, "key", []byte(r.Headers[i].Key))
		b = append(b, ',')
		b = appendBytes(b, "value", r.Headers[i].Value)
		b = append(b, '}')
	}
	return append(b, "]}\n"...)
}

// appendBytes appends a field that holds a byte string: null, text or base64.
func appendBytes(b []byte, field string, v []byte) []byte {
	b = append(b, '"')
	b = append(b, field...)
	switch {
	case v == nil:
		return append(b, `":null`...)
	case utf8.Valid(v):
		b = append(b, `":`...)
		return appendText(b, v)
	default:
		b = append(b, `_base64":"`...)
		b = base64.StdEncoding.AppendEncode(b, v)
		return append(b, '"')
	}
}

const hex = "0123456789abcdef"

// appendText appends valid UTF-8 as a JSON string. Only what JSON demands is escaped, so
// that nothing but the text itself comes out of any reader.
func appendText(b, v []byte) []byte {
	b = append(b, '"')
	plain := 0 // where the run of bytes that need no escape begins
	for i, c := range v {
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(b, v[plain:i]...)
		plain = i + 1
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\t':
			b = append(b, '\\', 't')
		case '\r':
			b = append(b, '\\', 'r')
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	b = append(b, v[plain:]...)
	return append(b, '"')
}
