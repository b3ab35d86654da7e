package shape

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cdc-relay/cdc-relay/decode"
)

// The columns of the default preset.
const (
	colID           = "id"
	colEntityID     = "entity_id"
	colEventType    = "event_type"
	colDedupeKey    = "dedupe_key"
	colPartitionKey = "partition_key"
	colOrderingKey  = "ordering_key"
	colPayload      = "payload"
	colCreatedAt    = "created_at"
	colHeaders      = "headers" // optional
)

// OIDs of built-in types (Postgres: src/include/catalog/pg_type.dat).
const (
	oidBytea       = 17
	oidInt8        = 20
	oidInt2        = 21
	oidInt4        = 23
	oidJSON        = 114
	oidTimestamp   = 1114
	oidTimestamptz = 1184
	oidJSONB       = 3802

	// firstOwnOID is the first one that isn't built in (FirstNormalObjectId in
	// src/include/access/transam.h). A domain has one of these, and its values are printed
	// as those of its base type, which the stream doesn't tell.
	firstOwnOID = 16384
)

// ColumnsError says that no row of a relation can become an event, because of the
// relation's columns. The rows aren't at fault and none may be stepped over.
type ColumnsError struct {
	Table   string   // schema-qualified
	Missing []string // names of columns that aren't there
	Wrong   []string // one sentence for each column of a type that can't be used
}

func (e *ColumnsError) Error() string {
	var causes []string
	if len(e.Missing) > 0 {
		causes = append(causes, "missing "+strings.Join(e.Missing, ", ")+
			" (add them to the table, and to the publication's column list if it has one)")
	}
	return "columns of outbox " + e.Table + ": " + strings.Join(append(causes, e.Wrong...), "; ")
}

// ExitCode is that of a missing object: a relay with these columns can't go on.
func (e *ColumnsError) ExitCode() int { return 2 }

// layout is where the columns are in the rows of one relation; -1 where it doesn't have one.
type layout struct {
	rel                                  *decode.Relation
	columns                              int
	id, entityID, eventType              int
	dedupeKey, partitionKey, orderingKey int
	payload, createdAt, headers          int
	payloadBytea                         bool
	zone                                 zone // of created_at
}

// needed are the columns without which there is no event.
func (s *Shape) needed() []string {
	need := []string{colID, colEntityID, colEventType}
	if s.cfg.Keys == KeysStored {
		need = []string{colEventType, colDedupeKey, colPartitionKey}
	}
	if s.cfg.Ordering == OrderingRow {
		if s.cfg.Keys == KeysStored {
			need = append(need, colOrderingKey)
		} else {
			need = append(need, colCreatedAt)
		}
	}
	return append(need, colPayload)
}

// Check says with a *ColumnsError which of the columns that the outbox needs are missing
// from columns.
func (s *Shape) Check(columns []string) error { return s.check(s.cfg.Table, columns) }

func (s *Shape) check(table string, columns []string) error {
	var missing []string
	for _, n := range s.needed() {
		if !slices.Contains(columns, n) {
			missing = append(missing, n)
		}
	}
	if len(missing) > 0 {
		return &ColumnsError{Table: table, Missing: missing}
	}
	return nil
}

// CheckRelation says with a *ColumnsError which columns of a relation are missing or of a
// type that can't be used. Event does the same at the first row.
func (s *Shape) CheckRelation(rel *decode.Relation) error {
	_, err := s.newLayout(rel)
	return err
}

func (s *Shape) layoutOf(rel *decode.Relation) (*layout, error) {
	if s.lay != nil && s.lay.rel == rel {
		return s.lay, nil
	}
	l := s.layouts[rel.ID]
	if l == nil || l.rel != rel {
		var err error
		if l, err = s.newLayout(rel); err != nil {
			return nil, err
		}
		s.layouts[rel.ID] = l
	}
	s.lay = l
	return l, nil
}

func (s *Shape) newLayout(rel *decode.Relation) (*layout, error) {
	names := make([]string, len(rel.Columns))
	for i, c := range rel.Columns {
		names[i] = c.Name
	}
	table := rel.Schema + "." + rel.Name
	if err := s.check(table, names); err != nil {
		return nil, err
	}
	at := func(name string) int { return slices.Index(names, name) }
	l := &layout{
		rel: rel, columns: len(names),
		id: at(colID), entityID: at(colEntityID), eventType: at(colEventType),
		dedupeKey: at(colDedupeKey), partitionKey: at(colPartitionKey), orderingKey: at(colOrderingKey),
		payload: at(colPayload), createdAt: at(colCreatedAt), headers: at(colHeaders),
	}
	l.payloadBytea = rel.Columns[l.payload].Type == oidBytea
	if wrong := s.types(rel, l); len(wrong) > 0 {
		return nil, &ColumnsError{Table: table, Wrong: wrong}
	}
	return l, nil
}

// types checks the types of the columns that aren't just text. One that isn't built in
// passes: the text of each row decides then.
func (s *Shape) types(rel *decode.Relation, l *layout) (wrong []string) {
	check := func(column int, want string, oids ...uint32) uint32 {
		if column < 0 {
			return 0
		}
		c := rel.Columns[column]
		if c.Type == 0 || c.Type >= firstOwnOID {
			return 0
		}
		if !slices.Contains(oids, c.Type) {
			wrong = append(wrong, fmt.Sprintf("%s has type %s, want %s", c.Name, typeName(c.Type), want))
		}
		return c.Type
	}
	if s.cfg.Keys == KeysDerived && s.cfg.Ordering == OrderingRow {
		check(l.id, "bigint, integer or smallint; other ids need ordering_key: commit", oidInt8, oidInt4, oidInt2)
	}
	switch check(l.createdAt, "timestamptz, or timestamp, which is read as UTC", oidTimestamptz, oidTimestamp) {
	case oidTimestamptz:
		l.zone = zoneSome
	case oidTimestamp:
		l.zone = zoneNone
	}
	check(l.headers, "jsonb or json", oidJSONB, oidJSON)
	return wrong
}

// typeName is the name of the types that people are likely to have there.
func typeName(oid uint32) string {
	names := map[uint32]string{
		oidBytea: "bytea", oidInt8: "bigint", oidInt2: "smallint", oidInt4: "integer", 25: "text", oidJSON: "json",
		1043: "varchar", 1082: "date", oidTimestamp: "timestamp", oidTimestamptz: "timestamptz", 1700: "numeric",
		2950: "uuid", oidJSONB: "jsonb",
	}
	if n, ok := names[oid]; ok {
		return n
	}
	return fmt.Sprintf("OID %d", oid)
}
