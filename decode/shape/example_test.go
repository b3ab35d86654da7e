package shape_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/cdc-relay/cdc-relay/decode"
	"github.com/cdc-relay/cdc-relay/decode/shape"
	"github.com/cdc-relay/cdc-relay/wal"
)

func ExampleShape_Event() {
	s, err := shape.New(shape.Config{Table: "public.outbox_events", Topic: "orders"})
	if err != nil {
		panic(err)
	}
	row := &decode.Tuple{
		Rel: &decode.Relation{Schema: "public", Name: "outbox_events", Columns: []decode.Column{
			{Name: "id"}, {Name: "entity_id"}, {Name: "event_type"}, {Name: "payload"}, {Name: "created_at"},
		}},
		Values: []decode.Value{
			{Text: []byte("42")},
			{Text: []byte("order:A-1")},
			{Text: []byte("order.created")},
			{Text: []byte(`{"total": 12.50}`)},
			{Text: []byte("2026-11-30 14:14:50.123456+00")},
		},
	}
	pos := wal.Position{Lineage: 1, Commit: 0x16B374D848, Seq: 0}
	committed := time.Date(2026, 11, 30, 14, 14, 51, 0, time.UTC)

	e, err := s.Event(row, pos, committed)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s %s %s at %d\n", e.Topic, e.Key, e.Value, e.TimestampMs)
	for _, h := range e.Headers {
		fmt.Printf("%s: %s\n", h.Key, h.Value)
	}

	row.Values[3] = decode.Value{Null: true}
	_, err = s.Event(row, pos, committed)
	var rejected *shape.RejectError
	fmt.Println(errors.As(err, &rejected), err)

	// Output:
	// orders order:A-1 {"total": 12.50} at 1796048090123
	// event_id: order.created:order:A-1:42
	// event_type: order.created
	// dedupe_key: order.created:order:A-1:42
	// ordering_key: 1796048090123:00000000000000000042
	// position: 0001:00000016B374D848:0000000000
	// true event of public.outbox_events, column payload: is NULL (with tombstones: true it would be a null value)
}
