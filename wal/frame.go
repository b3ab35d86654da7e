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

const (
	// slabSize holds what a busy server sends in a millisecond, and some 200 rows.
	slabSize = 64 << 10
	// slabsKept is how many slabs wait for reuse: more are out only while a consumer holds
	// on to them, and then its own limits bound them.
	slabsKept = 16
	// framesKept is room for the frames of a slab of ordinary rows.
	framesKept = 256
)

// pool keeps released batches for reuse. Any goroutine may use it.
type pool struct {
	idle    chan *Batch
	release func(*Batch)
}

func newPool() *pool {
	p := &pool{idle: make(chan *Batch, slabsKept)}
	p.release = p.put
	return p
}

// get returns an empty batch whose slab holds at least size bytes. One beyond the usual size
// is made for the purpose and left to the garbage collector: a single huge row must not
// stay in memory for ever.
func (p *pool) get(size int) *Batch {
	if size > slabSize {
		return &Batch{slab: make([]byte, size)}
	}
	select {
	case b := <-p.idle:
		return b
	default:
		return &Batch{slab: make([]byte, slabSize), Frames: make([]Frame, 0, framesKept), free: p.release}
	}
}

func (p *pool) put(b *Batch) {
	clear(b.Frames)
	b.Frames = b.Frames[:0]
	select {
	case p.idle <- b:
	default:
	}
}
