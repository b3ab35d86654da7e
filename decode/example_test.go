package decode_test

import (
	"fmt"
	"log"

	"github.com/cdc-relay/cdc-relay/decode"
	"github.com/cdc-relay/cdc-relay/wal/waltest"
)

// A recorded session stands in for the stream of a server.
func ExampleDecoder() {
	frames, err := waltest.ReadFile("testdata/pg18/messages.frames")
	if err != nil {
		log.Fatal(err)
	}
	d := decode.New()
	for _, f := range frames {
		c, err := d.Decode(f)
		if err != nil {
			log.Fatal(err) // final: a new stream from the stored position needs a new Decoder
		}
		switch c.Kind {
		case decode.Begin:
			fmt.Println("begin") // c.Commit is the transaction's place in the log
		case decode.Row:
			fmt.Printf("  event %d: %s of %s\n", c.Seq, c.Row.Values[1].Text, c.Row.Rel.Name)
		case decode.Message:
			if c.Msg.Counts() {
				fmt.Printf("  event %d: %q of %s\n", c.Seq, c.Msg.Content, c.Msg.Prefix)
			}
		case decode.Commit:
			fmt.Println("commit") // c.End may be confirmed once all its events are acknowledged
		}
	}
	// Output:
	// begin
	//   event 0: "a transaction of its own" of cdc_relay
	// commit
	// begin
	//   event 0: first of notes
	//   event 1: "2" of cdc_relay.contract
	//   event 2: second of notes
	// commit
	// begin
	//   event 0: "\x00\xff" of cdc_relay
	// commit
}
