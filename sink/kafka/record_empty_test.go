package kafka

import (
	"testing"

	"github.com/cdc-relay/cdc-relay/decode/shape"
	"github.com/cdc-relay/cdc-relay/sink"
)

// TestEmptyHeaderKeyIsNotNull: Kafka refuses a record with a null header key. On memory that no
// batch has used before, an empty piece of it must not be encoded as one.
func TestEmptyHeaderKeyIsNotNull(t *testing.T) {
	w := new(wire)
	w.build([]*sink.Record{{Event: shape.Event{Headers: []shape.Header{{Key: "", Value: []byte("v")}}}}})
	if key := w.headers[0].Key; key == nil || len(key) != 0 {
		t.Errorf("header key %#v, want empty and not nil", key)
	}
}
