package wal_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/rs/zerolog"

	"github.com/cdc-relay/cdc-relay/wal"
)

// position is durable somewhere; here it only stands for that.
type position wal.LSN

func (p position) Stored() wal.LSN { return wal.LSN(p) }

// Streams a slot from its confirmed position until Ctrl-C.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	conn, err := pgconn.ParseConfig(os.Getenv("DATABASE_URL"))
	if err != nil {
		panic(err)
	}
	stream, err := wal.Open(ctx, wal.Config{Conn: conn, Slot: "orders", Publication: "outbox", Log: zerolog.New(os.Stderr)})
	if err != nil {
		panic(err)
	}
	defer stream.Close()
	slot, err := stream.Slot(ctx, "orders")
	if err != nil || slot == nil || slot.Lost() {
		panic(fmt.Sprint("no slot to read from: ", slot, err))
	}
	if err := stream.Start(ctx, slot.Confirmed); err != nil {
		panic(err)
	}
	batches := make(chan *wal.Batch, 4)
	ended := make(chan error, 1)
	go func() { ended <- stream.Run(ctx, position(slot.Confirmed), batches) }()
	for batch := range batches {
		for _, frame := range batch.Frames {
			if frame.Data == nil {
				fmt.Println("the server has sent everything up to", frame.End)
			} else {
				fmt.Printf("%c, %d bytes\n", frame.Data[0], len(frame.Data))
			}
		}
		batch.Release()
	}
	if err := <-ended; err != nil {
		fmt.Println(err)
	}
}

func ExampleParseLSN() {
	lsn, err := wal.ParseLSN("16/b374d848")
	fmt.Println(lsn, uint64(lsn), err)
	_, err = wal.ParseLSN("0/ZZ")
	fmt.Println(err != nil)
	// Output:
	// 16/B374D848 97500059720 <nil>
	// true
}
