package stdout_test

import (
	"context"
	"fmt"
	"os"

	"github.com/cdc-relay/cdc-relay/decode/shape"
	"github.com/cdc-relay/cdc-relay/sink"
	"github.com/cdc-relay/cdc-relay/sink/stdout"
	"github.com/cdc-relay/cdc-relay/wal"
)

func ExampleNew() {
	ctx := context.Background()
	s := stdout.New(os.Stdout, drop{})
	err := s.Produce(ctx, &sink.Record{
		Event: shape.Event{
			Position:    wal.Position{Lineage: 1, Commit: 0x16B374D8},
			Topic:       "orders",
			Key:         []byte("o-1"),
			Value:       []byte{0xCA, 0xFE},
			TimestampMs: 1700000000123,
			DedupeKey:   "order.created:o-1:42",
		},
		Partition: 3,
	})
	if err == nil {
		err = s.Flush(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if left, err := s.Close(ctx); left != 0 || err != nil {
		fmt.Fprintln(os.Stderr, left, "events are not written:", err)
	}
	// Output:
	// {"topic":"orders","partition":3,"position":"0001:0000000016B374D8:0000000000","dedupe_key":"order.created:o-1:42","timestamp_ms":1700000000123,"key":"o-1","value_base64":"yv4=","headers":[]}
}
