package checkpoint_test

import (
	"fmt"
	"time"

	"github.com/cdc-relay/cdc-relay/checkpoint"
)

// Two transactions are published. The second is acknowledged first, and waits for the first.
func ExampleTracker() {
	t := checkpoint.NewTracker(0x100, checkpoint.Limits{Events: 1000, Bytes: 16 << 20})

	t.Begin(time.Now())
	first, _ := t.Add(300)
	t.Add(300)
	t.Seal(0x200)

	t.Begin(time.Now())
	second, _ := t.Add(300)
	t.Seal(0x300)

	t.Ack(second, 1, 300)
	fmt.Println(t.Confirmed())
	t.Ack(first, 2, 600)
	fmt.Println(t.Confirmed())
	// Output:
	// 0/100
	// 0/300
}

// Nothing is stored, and the slot is one that another program has used.
func ExampleDecide() {
	slot := &checkpoint.Slot{Name: "orders", Plugin: "pgoutput", Database: "shop", Confirmed: 0x16_B374D848, WALStatus: "reserved"}
	server := checkpoint.Server{SystemID: "7312", Timeline: 1, Flushed: 0x16_B3800000, Database: "shop"}
	start, err := checkpoint.Decide("orders", nil, slot, server)
	fmt.Println(start.Action, start.From, err)
	// Output:
	// adopt the slot 16/B374D848 <nil>
}
