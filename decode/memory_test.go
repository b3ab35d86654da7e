package decode_test

import (
	"runtime"
	"testing"

	"github.com/cdc-relay/cdc-relay/decode"
	"github.com/cdc-relay/cdc-relay/wal"
)

// A message of a few bytes that claims to be large takes no memory for what isn't there.
func TestNoMemoryForWhatIsNotThere(t *testing.T) {
	const most = 64 << 10
	for name, frame := range map[string]wal.Frame{
		"columns":   data(wire("R").u32(1).str("s").str("t").u8('d').u16(65535)),
		"values":    data(wire("I").u32(orders.ID).u8('N').u16(65535)),
		"value":     data(wire("I").u32(orders.ID).u8('N').u16(2).u8('t').u32(1 << 30)),
		"old value": data(wire("U").u32(orders.ID).u8('O').u16(2).u8('t').u32(1 << 30)),
		"relations": data(wire("T").u32(1 << 30).u8(0)),
		"content":   data(wire("M").u8(0).u64(1).str("p").u32(1 << 30)),
	} {
		t.Run(name, func(t *testing.T) {
			d := decode.New()
			feed(t, d, opened()...)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := d.Decode(frame)
			runtime.ReadMemStats(&after)
			if err == nil {
				t.Fatal("it was accepted")
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > most {
				t.Errorf("took %d bytes for a message of %d", took, len(frame.Data))
			}
		})
	}
}
