package wal_test

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/cdc-relay/cdc-relay/wal"
	"github.com/cdc-relay/cdc-relay/wal/waltest"
)

// stored is a checkpoint that a test moves.
type stored struct{ lsn atomic.Uint64 }

func storedAt(l wal.LSN) *stored {
	s := new(stored)
	s.set(l)
	return s
}

func (s *stored) set(l wal.LSN)   { s.lsn.Store(uint64(l)) }
func (s *stored) Stored() wal.LSN { return wal.LSN(s.lsn.Load()) }

// begin is where the streams of these tests start, and flushed what their server has named.
const (
	begin   wal.LSN = 0x1000
	flushed wal.LSN = 0x2000
)

func source() waltest.Source {
	return waltest.Source{
		System:        wal.System{ID: "7", Timeline: 1, Flushed: flushed, Database: "app", Version: 150018},
		SenderTimeout: time.Minute,
	}
}

func config(server *waltest.Server) wal.Config {
	return wal.Config{Conn: server.Config(), Slot: "slot", Publication: "pub", Log: zerolog.Nop()}
}

// session is a Run under test.
type session struct {
	t      testing.TB
	stream *wal.Stream
	stored *stored
	out    chan *wal.Batch
	cancel context.CancelFunc
	done   chan error
}

// stream opens, starts and runs a stream; nobody takes its batches yet.
func stream(t testing.TB, cfg wal.Config, buffer int) *session {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	s, err := wal.Open(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if err := s.Start(ctx, begin); err != nil {
		t.Fatal(err)
	}
	r := &session{t: t, stream: s, stored: storedAt(0), out: make(chan *wal.Batch, buffer), cancel: cancel, done: make(chan error, 1)}
	go func() { r.done <- s.Run(ctx, r.stored, r.out) }()
	return r
}

// take waits for a batch, and reports its frames as text.
func (r *session) take() (frames []string) {
	r.t.Helper()
	select {
	case b, ok := <-r.out:
		if !ok {
			return nil
		}
		defer b.Release()
		return texts(b.Frames)
	case <-time.After(10 * time.Minute):
		r.t.Fatal("no batch came")
		return nil
	}
}

// rest takes all batches to the end of the stream.
func (r *session) rest() (frames []string) {
	for b := range r.out {
		frames = append(frames, texts(b.Frames)...)
		b.Release()
	}
	return frames
}

// err waits for the end of the stream and returns what Run did.
func (r *session) err() error {
	r.t.Helper()
	select {
	case err := <-r.done:
		return err
	case <-time.After(time.Hour):
		r.t.Fatal("the stream doesn't end")
		return nil
	}
}

// stop ends the context and expects a clean stop.
func (r *session) stop() {
	r.t.Helper()
	r.cancel()
	r.rest()
	if err := r.err(); err != nil {
		r.t.Errorf("stop: %v", err)
	}
}

func texts(frames []wal.Frame) (texts []string) {
	for _, f := range frames {
		if f.Data == nil {
			texts = append(texts, fmt.Sprintf("keepalive %v", f.End))
		} else {
			texts = append(texts, fmt.Sprintf("%s %v", f.Data, f.End))
		}
	}
	return texts
}

func checkStatus(t *testing.T, st waltest.Status, want wal.LSN) {
	t.Helper()
	if st.Write != want || st.Flush != want || st.Apply != want {
		t.Errorf("status says write %v, flush %v, apply %v; want %v in all three", st.Write, st.Flush, st.Apply, want)
	}
}

const maxLSN wal.LSN = math.MaxUint64
