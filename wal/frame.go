package wal

import "time"

// Frame is one message of the replication stream.
type Frame struct {
	// End is, for a keepalive, the position up to which the server has decoded and
	// sent; for data it is where the message lies, which no promise rests on.
	End LSN
	// At is the server's clock when it sent the frame.
	At time.Time
	// Data is the pgoutput message. It is nil for a keepalive, which travels in band
	// so that its position can't overtake the data before it. It points into the
	// batch's slab: valid until the batch is released.
	Data []byte
}

// Batch is a run of frames in stream order that share one slab of memory. Whoever
// receives it owns it, and calls Release once when no Data of it is used any more.
type Batch struct {
	Frames []Frame
	slab   []byte
	free   func(*Batch)
}

// Release gives the slab back. The batch must not be used afterwards.
func (b *Batch) Release() {
	if b.free != nil {
		b.free(b)
	}
}

// Stored is what wal needs from the checkpoint: the position that is durable in our
// own storage, and so may be confirmed to Postgres. Called from Run's goroutine at
// any time; must not block.
type Stored interface{ Stored() LSN }
