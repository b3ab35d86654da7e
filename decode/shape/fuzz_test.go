package shape

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/cdc-relay/cdc-relay/decode"
	"github.com/cdc-relay/cdc-relay/wal"
)

// The columns of a fuzzed row. Bit i of the flags makes column i NULL, bit 9+i takes it out of
// the table.
var fuzzColumns = []decode.Column{
	{Name: colID, Type: oidInt8},
	{Name: colEntityID, Type: 25},
	{Name: colEventType, Type: 25},
	{Name: colDedupeKey, Type: 25},
	{Name: colPartitionKey, Type: 25},
	{Name: colOrderingKey, Type: 25},
	{Name: colPayload, Type: oidJSONB},
	{Name: colCreatedAt, Type: oidTimestamptz},
	{Name: colHeaders, Type: oidJSON},
}

// Further flags of a fuzzed row and its outbox.
const (
	fuzzStored = 1 << (18 + iota)
	fuzzCommitOrder
	fuzzTombstones
	fuzzBytea
	fuzzPlainTimestamp // timestamp without time zone
	fuzzOwnTypes       // every column is of a domain
	fuzzReversed       // the columns are in another order
)

// fuzzRow makes the row. columns are the values by name; a column that is NULL or isn't there
// has none.
func fuzzRow(flags uint32, texts []string) (row *decode.Tuple, columns map[string]string) {
	row, columns = &decode.Tuple{Rel: &decode.Relation{ID: 1, Schema: "s", Name: "t"}}, map[string]string{}
	for i, c := range fuzzColumns {
		if flags>>(9+i)&1 == 1 {
			continue
		}
		switch {
		case flags&fuzzOwnTypes != 0:
			c.Type = firstOwnOID
		case c.Name == colPayload && flags&fuzzBytea != 0:
			c.Type = oidBytea
		case c.Name == colCreatedAt && flags&fuzzPlainTimestamp != 0:
			c.Type = oidTimestamp
		}
		v := decode.Value{Null: true}
		if flags>>i&1 == 0 {
			v = decode.Value{Text: []byte(texts[i])}
			columns[c.Name] = texts[i]
		}
		row.Rel.Columns = append(row.Rel.Columns, c)
		row.Values = append(row.Values, v)
	}
	if flags&fuzzReversed != 0 {
		slices.Reverse(row.Rel.Columns)
		slices.Reverse(row.Values)
	}
	return row, columns
}

func fuzzConfig(flags uint32) Config {
	cfg := Config{Table: "s.t", Topic: "topic", Keys: KeysDerived, Ordering: OrderingRow, Tombstones: flags&fuzzTombstones != 0}
	if flags&fuzzStored != 0 {
		cfg.Keys = KeysStored
	}
	if flags&fuzzCommitOrder != 0 {
		cfg.Ordering = OrderingCommit
	}
	return cfg
}

// naive makes the event of a row as the documentation of the wire tells it, column by column
// and without a care for memory. ok is false where there is none.
func naive(cfg Config, row *decode.Tuple, col map[string]string, pos wal.Position, commit time.Time) (e Event, ok bool) {
	position := fmt.Sprintf("%04d:%016X:%010d", pos.Lineage, uint64(pos.Commit), pos.Seq)
	created, at, isTime, hasCreated := instant{}, "", true, false
	if at, hasCreated = col[colCreatedAt]; hasCreated {
		created, isTime = referenceTimestamp(at)
		i := slices.IndexFunc(row.Rel.Columns, func(c decode.Column) bool { return c.Name == colCreatedAt })
		zoned := timestampForm.FindStringSubmatch(at)
		if isTime && row.Rel.Columns[i].Type < firstOwnOID && (zoned[8] != "") != (row.Rel.Columns[i].Type == oidTimestamptz) {
			isTime = false
		}
	}
	eventType, hasType := col[colEventType]
	var dedupe, ordering string
	var key *string
	has := func(name string, to *string) bool {
		v, there := col[name]
		*to = v
		return there
	}
	switch good := isTime && hasType; {
	case !good:
		return e, false
	case cfg.Keys == KeysStored:
		var k string
		if !has(colDedupeKey, &dedupe) || !has(colPartitionKey, &k) || cfg.Ordering == OrderingRow && !has(colOrderingKey, &ordering) {
			return e, false
		}
		key = &k
	default:
		var id string
		if !has(colID, &id) {
			return e, false
		}
		if k, there := col[colEntityID]; there {
			key = &k
		}
		dedupe = eventType + ":" + col[colEntityID] + ":" + id
		if cfg.Ordering == OrderingRow {
			n, err := strconv.ParseInt(id, 10, 64)
			if err != nil || strconv.FormatInt(n, 10) != id || !hasCreated {
				return e, false
			}
			ordering = fmt.Sprintf("%013d:%020d", created.sec*1000+int64(created.usec)/1000, n)
		}
	}
	if cfg.Ordering == OrderingCommit {
		ordering = position
	}
	e.Headers = []Header{
		{"event_id", []byte(dedupe)},
		{"event_type", []byte(eventType)},
		{"dedupe_key", []byte(dedupe)},
		{"ordering_key", []byte(ordering)},
		{"position", []byte(position)},
	}
	if text, there := col[colHeaders]; there {
		hs, valid := referenceHeaders(text)
		if !valid {
			return e, false
		}
		e.Headers = append(e.Headers, hs...)
	}
	if e.Value, ok = naiveValue(cfg, row, col); !ok {
		return e, false
	}
	e.Position, e.Topic, e.DedupeKey, e.CommitTime, e.TimestampMs = pos, cfg.Topic, dedupe, commit, commit.UnixMilli()
	e.ShardKey = []byte(dedupe)
	if key != nil {
		e.Key, e.ShardKey = []byte(*key), []byte(*key)
	}
	if d := time.Unix(created.sec, int64(created.usec)*1000).Sub(commit); hasCreated && d.Abs() <= 24*time.Hour {
		e.TimestampMs = created.sec*1000 + int64(created.usec)/1000
	}
	return e, true
}

// naiveValue is the record's value: the payload's own text, or the bytes that bytea stands for.
func naiveValue(cfg Config, row *decode.Tuple, col map[string]string) (value []byte, ok bool) {
	text, there := col[colPayload]
	i := slices.IndexFunc(row.Rel.Columns, func(c decode.Column) bool { return c.Name == colPayload })
	switch {
	case !there:
		return nil, cfg.Tombstones
	case row.Rel.Columns[i].Type != oidBytea:
		return []byte(text), true
	case len(text) < 2 || text[:2] != `\x`:
		return nil, false
	}
	value, err := hex.DecodeString(text[2:])
	return value, err == nil && string(bytes.ToLower([]byte(text))) == text
}

// naiveMissing are the columns that every outbox of this configuration must have, and that this
// one hasn't.
func naiveMissing(cfg Config, rel *decode.Relation) (missing []string) {
	need := map[string]string{
		"derived row":    "id entity_id event_type created_at payload",
		"derived commit": "id entity_id event_type payload",
		"stored row":     "event_type dedupe_key partition_key ordering_key payload",
		"stored commit":  "event_type dedupe_key partition_key payload",
	}[string(cfg.Keys)+" "+string(cfg.Ordering)]
	for name := range strings.FieldsSeq(need) {
		if !slices.ContainsFunc(rel.Columns, func(c decode.Column) bool { return c.Name == name }) {
			missing = append(missing, name)
		}
	}
	return missing
}

// FuzzEvent makes events of any row under any configuration and compares them with naive.
func FuzzEvent(f *testing.F) {
	f.Fuzz(func(t *testing.T, flags uint32, id, entity, eventType, dedupe, partition, ordering, payload, created, headers string,
		lineage uint16, commit uint64, seq uint32, committed int64,
	) {
		texts := []string{id, entity, eventType, dedupe, partition, ordering, payload, created, headers}
		if !utf8.ValidString(headers) || len(headers) > 9_000 {
			return // the reference replaces what isn't UTF-8, and gives up at a depth of 10,000
		}
		row, columns := fuzzRow(flags, texts)
		cfg := fuzzConfig(flags)
		pos := wal.Position{Lineage: lineage, Commit: wal.LSN(commit), Seq: seq}
		at := time.UnixMicro(committed % 9_000_000_000_000_000).UTC() // some 285 years either way
		s := mustNew(t, cfg)
		got, err := s.Event(row, pos, at)
		unfit, is := errors.AsType[*ColumnsError](err)
		if missing := naiveMissing(cfg, row.Rel); is || len(missing) > 0 {
			if !is || !slices.Equal(unfit.Missing, missing) || s.CheckRelation(row.Rel) == nil || !reflect.DeepEqual(got, Event{}) {
				t.Fatalf("a relation without %q made %+v, %v", missing, got, err)
			}
			return
		}
		want, ok := naive(cfg, row, columns, pos, at)
		if rejected, is := errors.AsType[*RejectError](err); is {
			if ok && (rejected.Column != colHeaders || !hasHalfPair(headers, want.Headers[ownHeaders:])) {
				t.Fatalf("%q is rejected: %v\nwant %+v", texts, err, want)
			}
			if !reflect.DeepEqual(got, Event{}) {
				t.Fatalf("the rejected row made %+v", got)
			}
			return
		}
		if err != nil || !ok {
			t.Fatalf("%q made %+v, %v; want an event: %v", texts, got, err, ok)
		}
		sameEvent(t, got, want)

		// It owns its memory, and depends on nothing but the row: neither on what the frame's
		// buffer holds next, nor on what this Shape did before.
		again, err := s.Event(row, pos, at)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range row.Values {
			for i := range v.Text {
				v.Text[i] ^= 0xFF
			}
		}
		_, _ = s.Event(row, pos, at) // whatever comes of it, it uses the Shape's buffers
		sameEvent(t, got, want)
		sameEvent(t, again, want)
	})
}

func sameEvent(t *testing.T, got, want Event) {
	t.Helper()
	if g, w := printHeaders(got.Headers), printHeaders(want.Headers); g != w {
		t.Fatalf("headers\ngot  %s\nwant %s", g, w)
	}
	got.Headers, want.Headers = nil, nil
	if !reflect.DeepEqual(got, want) { // tells nil from empty
		t.Fatalf("\ngot  %+v\nwant %+v", got, want)
	}
}
