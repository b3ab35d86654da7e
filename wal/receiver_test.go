package wal

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

func copyData(payloads ...[]byte) (msgs []byte) {
	for _, p := range payloads {
		msgs = append(msgs, 'd')
		msgs = binary.BigEndian.AppendUint32(msgs, uint32(4+len(p)))
		msgs = append(msgs, p...)
	}
	return msgs
}

// chunks is a connection that gives as much per read as it is told.
type chunks struct {
	data []byte
	size func() int
}

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.data[:min(len(c.data), c.size())])
	c.data = c.data[n:]
	return n, nil
}

func noNotices(*pgconn.PgError) {}

// receive reads to the end as Run does, and keeps all batches until then.
func receive(t *testing.T, r *receiver) (batches []*Batch) {
	t.Helper()
	take := func() {
		if b := r.take(); b != nil {
			batches = append(batches, b)
		}
	}
	if err := r.parse(); err != nil {
		t.Fatal(err)
	}
	for {
		_, readErr := r.read()
		if err := r.parse(); err != nil {
			t.Fatal(err)
		}
		if readErr == io.EOF {
			take()
			return batches
		}
		if r.complete || r.full() {
			take()
		}
	}
}

// However the network cuts the stream up, the frames are the same, and they stay as they are
// for as long as their batches are held.
func TestReceiverPartialReads(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	sizes := []int{
		0, 1, 20, 300, 300, 300, 300, 5000, slabSize - dataHeader - messageHeader - 1, slabSize - dataHeader - messageHeader,
		slabSize - dataHeader - messageHeader + 1, slabSize, 2 * slabSize, 1_000_000,
	}
	var want []Frame
	var stream []byte
	for i := range 400 {
		data := make([]byte, sizes[rng.IntN(len(sizes)-4*min(1, i%10))])
		for j := range data {
			data[j] = byte(rng.Uint32())
		}
		p := dataMessage(LSN(i+1), LSN(i+1), int64(i), string(data))
		f, _, err := ParseFrame(p)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, f)
		stream = append(stream, copyData(p)...)
	}
	for name, size := range map[string]func() int{
		"byte by byte":  func() int { return 1 },
		"tiny":          func() int { return 1 + rng.IntN(10) },
		"server buffer": func() int { return 8192 },
		"random":        func() int { return 1 + rng.IntN(100_000) },
		"all":           func() int { return 1 << 30 },
	} {
		if testing.Short() && name == "byte by byte" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			first := rng.IntN(handoffSize) // read before the stream was ours
			r := newReceiver(&chunks{stream[first:], size}, stream[:first], 0, noNotices)
			var got []Frame
			for _, b := range receive(t, r) {
				got = append(got, b.Frames...)
			}
			if len(got) != len(want) {
				t.Fatalf("%d frames, want %d", len(got), len(want))
			}
			for i, f := range got {
				if f.End != want[i].End || !f.At.Equal(want[i].At) || f.Data == nil || !bytes.Equal(f.Data, want[i].Data) {
					t.Fatalf("frame %d differs", i)
				}
			}
			if r.named != LSN(len(want)) {
				t.Errorf("named is %v", r.named)
			}
		})
	}
}

// A frame's Data can be appended to without touching its neighbour.
func TestReceiverFramesAreApart(t *testing.T) {
	r := newReceiver(strings.NewReader(""), copyData(dataMessage(1, 1, 1, "one"), dataMessage(2, 2, 2, "two")), 0, noNotices)
	if err := r.parse(); err != nil {
		t.Fatal(err)
	}
	b := r.take()
	_ = append(b.Frames[0].Data, "xxxxxxxxxxxx"...)
	if got := string(b.Frames[1].Data); got != "two" {
		t.Errorf("the second frame became %q", got)
	}
}

// All that is there goes into one batch.
func TestReceiverBatches(t *testing.T) {
	var stream []byte
	for i := range 100 {
		stream = append(stream, copyData(dataMessage(LSN(i), LSN(i), 0, "0123456789"))...)
	}
	batches := receive(t, newReceiver(bytes.NewReader(stream), nil, 0, noNotices))
	if len(batches) != 1 || len(batches[0].Frames) != 100 {
		t.Errorf("%d batches", len(batches))
	}
}

// A huge row has a slab of its own, just large enough, that nobody keeps.
func TestReceiverHugeRow(t *testing.T) {
	small := dataMessage(1, 1, 1, "small")
	huge := dataMessage(2, 2, 2, strings.Repeat("x", 3*slabSize))
	stream := copyData(small, huge, small)
	r := newReceiver(&chunks{stream, func() int { return 1000 }}, nil, 0, noNotices)
	batches := receive(t, r)
	var sizes []int
	for _, b := range batches {
		sizes = append(sizes, len(b.slab))
		b.Release()
	}
	if want := []int{slabSize, len(copyData(huge)), slabSize}; !slices.Equal(sizes, want) {
		t.Errorf("slabs of %d bytes, want %d", sizes, want)
	}
	for len(r.pool.idle) > 0 {
		if b := <-r.pool.idle; len(b.slab) != slabSize {
			t.Errorf("a slab of %d bytes was kept", len(b.slab))
		}
	}
}

// A released slab serves again, a held one doesn't.
func TestReceiverReusesReleasedBatches(t *testing.T) {
	msg := copyData(dataMessage(1, 1, 1, "row"))
	r := newReceiver(&chunks{bytes.Repeat(msg, 100), func() int { return len(msg) }}, nil, 0, noNotices)
	next := func() *Batch {
		t.Helper()
		if _, err := r.read(); err != nil {
			t.Fatal(err)
		}
		if err := r.parse(); err != nil {
			t.Fatal(err)
		}
		return r.take()
	}
	held := next()
	seen := map[*Batch]bool{}
	for range 20 {
		b := next()
		if b == held || &b.slab[0] == &held.slab[0] {
			t.Fatal("a batch that was not released is used again")
		}
		if len(b.Frames) != 1 {
			t.Fatalf("%d frames", len(b.Frames))
		}
		seen[b] = true
		b.Release()
	}
	if len(seen) > 2 {
		t.Errorf("%d batches for one in use at a time", len(seen))
	}
	if string(held.Frames[0].Data) != "row" {
		t.Error("the batch that was held has changed")
	}
}

// More batches than the pool keeps can be out at a time.
func TestPoolIsBounded(t *testing.T) {
	p := newPool()
	var out []*Batch
	for range 2 * slabsKept {
		out = append(out, p.get(0))
	}
	for _, b := range out {
		b.Release()
	}
	if len(p.idle) != slabsKept {
		t.Errorf("%d slabs are kept", len(p.idle))
	}
}

// A keepalive that says nothing new is left out; one that does never is.
func TestReceiverKeepalives(t *testing.T) {
	keep := func(end LSN) []byte { return keepalive(end, 0, 0) }
	for _, c := range []struct {
		name string
		msgs [][]byte
		want []LSN
	}{
		{"repeated", [][]byte{keep(5), keep(5), keep(5)}, []LSN{5}},
		{"advancing", [][]byte{keep(5), keep(6), keep(7)}, []LSN{5, 6, 7}},
		{"backward", [][]byte{keep(5), keep(4), keep(6)}, []LSN{5, 6}},
		// The first may have been ignored because a transaction was open.
		{"with data between", [][]byte{keep(5), dataMessage(5, 5, 0, "C"), keep(5)}, []LSN{5, 5, 5}},
		{"zero", [][]byte{keep(0), keep(0), keep(1)}, []LSN{0, 0, 1}},
	} {
		for _, size := range []int{1, 1 << 20} { // also when each is in a batch of its own
			r := newReceiver(&chunks{copyData(c.msgs...), func() int { return size }}, nil, 0, noNotices)
			var got []LSN
			for _, b := range receive(t, r) {
				for _, f := range b.Frames {
					got = append(got, f.End)
				}
				b.Release()
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%s, %d bytes a read: %v, want %v", c.name, size, got, c.want)
			}
		}
	}
}

func TestReceiverNamed(t *testing.T) {
	for _, c := range []struct {
		before LSN
		msgs   [][]byte
		want   LSN
	}{
		{10, [][]byte{keepalive(5, 0, 0)}, 10},
		{10, [][]byte{keepalive(15, 0, 0)}, 15},
		{10, [][]byte{dataMessage(15, 15, 0, "C")}, 15},
		{10, [][]byte{dataMessage(0, 0, 0, "R"), dataMessage(12, 12, 0, "I"), dataMessage(11, 11, 0, "B")}, 12},
	} {
		r := newReceiver(bytes.NewReader(copyData(c.msgs...)), nil, c.before, noNotices)
		receive(t, r)
		if r.named != c.want {
			t.Errorf("named %v, want %v", r.named, c.want)
		}
	}
}

// loop is a connection that repeats the same messages for ever.
type loop struct {
	data []byte
	at   int
	size int
}

func (l *loop) Read(p []byte) (n int, err error) {
	for n < min(len(p), l.size) {
		c := copy(p[n:min(len(p), l.size)], l.data[l.at:])
		l.at = (l.at + c) % len(l.data)
		n += c
	}
	return n, nil
}

// transaction is 20 rows of 300 bytes with what belongs to them.
func transaction() (stream []byte, messages int) {
	stream = append(stream, copyData(dataMessage(1, 1, 1, strings.Repeat("B", 21)))...)
	for range 20 {
		stream = append(stream, copyData(dataMessage(1, 1, 1, strings.Repeat("I", 380)))...)
	}
	stream = append(stream, copyData(dataMessage(1, 1, 1, strings.Repeat("C", 26)), keepalive(1, 1, 0))...)
	return stream, 23
}

func receiveForEver(size int) (batch func() (frames int)) {
	stream, _ := transaction()
	r := newReceiver(&loop{data: stream, size: size}, nil, 0, noNotices)
	return func() int {
		for {
			if _, err := r.read(); err != nil {
				panic(err)
			}
			if err := r.parse(); err != nil {
				panic(err)
			}
			if b := r.take(); b != nil {
				n := len(b.Frames)
				b.Release()
				return n
			}
		}
	}
}

func TestReceiverAllocatesNothing(t *testing.T) {
	for _, size := range []int{100, 8192, 1 << 20} {
		batch := receiveForEver(size)
		for range 10 {
			batch()
		}
		if n := testing.AllocsPerRun(1000, func() { batch() }); n != 0 {
			t.Errorf("%d bytes a read: %v allocations for a batch", size, n)
		}
	}
}

// One operation is one message.
func BenchmarkReceiver(b *testing.B) {
	for _, size := range []int{1700, 8192, slabSize} {
		b.Run(fmt.Sprintf("read=%d", size), func(b *testing.B) {
			batch := receiveForEver(size)
			stream, messages := transaction()
			b.SetBytes(int64(len(stream) / messages))
			b.ReportAllocs()
			for n := 0; n < b.N; {
				n += batch()
			}
		})
	}
}
