package decode

import (
	"errors"
	"math"
	"testing"

	"github.com/cdc-relay/cdc-relay/wal"
)

// A transaction with more events than the sequence has numbers must not give two events one
// position. Nobody can write four billion rows in a test, so it sets the counter.
func TestSequenceDoesNotWrap(t *testing.T) {
	insert := wal.Frame{Data: []byte("I\x00\x00\x00\x05N\x00\x00")}
	own := wal.Frame{Data: []byte("M\x01\x00\x00\x00\x00\x00\x00\x00\x07cdc_relay\x00\x00\x00\x00\x00")}
	foreign := wal.Frame{Data: []byte("M\x01\x00\x00\x00\x00\x00\x00\x00\x07cdc_other\x00\x00\x00\x00\x00")}
	for name, f := range map[string]wal.Frame{"insert": insert, "message": own} {
		t.Run(name, func(t *testing.T) {
			d := New()
			d.relations[5] = &Relation{ID: 5}
			d.open, d.commit, d.seq = true, 0x100, math.MaxUint32-1
			c, err := d.Decode(f)
			if err != nil || c.Seq != math.MaxUint32-1 {
				t.Fatalf("the last event: %+v, %v", c, err)
			}
			if _, err := d.Decode(foreign); err != nil {
				t.Fatalf("a foreign message needs no number: %v", err)
			}
			_, err = d.Decode(f)
			var pe *ProtocolError
			if !errors.As(err, &pe) {
				t.Fatalf("one event more: %v, want a *ProtocolError", err)
			}
		})
	}
}
