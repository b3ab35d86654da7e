package shape

import (
	"slices"
	"testing"

	"github.com/cdc-relay/cdc-relay/decode"
)

// tuple makes a row from triples of column name, type OID and text; nil is NULL.
func tuple(columns ...any) *decode.Tuple {
	t := &decode.Tuple{Rel: &decode.Relation{ID: 4711, Schema: "public", Name: "outbox_events"}}
	for c := range slices.Chunk(columns, 3) {
		v := decode.Value{Null: true}
		if text, ok := c[2].(string); ok {
			v = decode.Value{Text: []byte(text)}
		}
		t.Rel.Columns = append(t.Rel.Columns, decode.Column{Name: c[0].(string), Type: uint32(c[1].(int))})
		t.Values = append(t.Values, v)
	}
	return t
}

// with returns a row like t where the columns of the triples are set or added.
func with(t *decode.Tuple, columns ...any) *decode.Tuple {
	rel := *t.Rel
	rel.Columns = slices.Clone(rel.Columns)
	values := slices.Clone(t.Values)
	change := tuple(columns...)
	for i, c := range change.Rel.Columns {
		at := slices.IndexFunc(rel.Columns, func(have decode.Column) bool { return have.Name == c.Name })
		if at < 0 {
			rel.Columns, values = append(rel.Columns, c), append(values, change.Values[i])
			continue
		}
		rel.Columns[at], values[at] = c, change.Values[i]
	}
	return &decode.Tuple{Rel: &rel, Values: values}
}

// without returns a row like t that doesn't have the columns.
func without(t *decode.Tuple, columns ...string) *decode.Tuple {
	rel := *t.Rel
	rel.Columns = nil
	out := &decode.Tuple{Rel: &rel}
	for i, c := range t.Rel.Columns {
		if !slices.Contains(columns, c.Name) {
			rel.Columns = append(rel.Columns, c)
			out.Values = append(out.Values, t.Values[i])
		}
	}
	return out
}

// mustNew makes a Shape, with a table and a topic where cfg has none.
func mustNew(t testing.TB, cfg Config) *Shape {
	t.Helper()
	if cfg.Table == "" {
		cfg.Table = "public.outbox_events"
	}
	if cfg.Topic == "" {
		cfg.Topic = "orders"
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
