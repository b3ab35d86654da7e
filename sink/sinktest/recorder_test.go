package sinktest_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/decode/shape"
	"github.com/cdc-relay/cdc-relay/sink"
	"github.com/cdc-relay/cdc-relay/sink/sinktest"
	"github.com/cdc-relay/cdc-relay/wal"
)

func TestRecorderConforms(t *testing.T) {
	sinktest.Run(t, func(t *testing.T) sinktest.Subject {
		var rec *sinktest.Recorder
		counts := make(map[string]int32)
		return sinktest.Subject{
			Open: func(_ *testing.T, h sink.Handler) sink.Sink {
				rec = sinktest.NewRecorder(h)
				return rec
			},
			Topic: func(_ *testing.T, n int32) string {
				topic := fmt.Sprintf("topic-%d", len(counts))
				counts[topic] = n
				return topic
			},
			Read: func(_ *testing.T, topic string) [][]sinktest.Stored {
				out := make([][]sinktest.Stored, counts[topic])
				for p := range out {
					for _, r := range rec.Published(topic, int32(p)) {
						out[p] = append(out[p], sinktest.Stored{Key: r.Key, Value: r.Value, Headers: r.Headers, TimestampMs: r.TimestampMs})
					}
				}
				return out
			},
			Stall: func(*testing.T) func() {
				rec.Hold()
				return rec.Release
			},
			Poison: func(*testing.T, string) sinktest.Poison {
				var spoiled []wal.Position
				return sinktest.Poison{
					Spoil: func(r *sink.Record) {
						spoiled = append(spoiled, r.Position)
						rec.Refuse(r.Position, errors.New("too large"))
					},
					Heal: func() {
						for _, p := range spoiled {
							rec.Refuse(p, nil)
						}
					},
				}
			},
			Outage: func(_ *testing.T, topic string) func() {
				rec.FailTopic(topic, errors.New("not authorized"))
				return func() { rec.FailTopic(topic, nil) }
			},
		}
	})
}

func record(partition int32, n int) *sink.Record {
	return &sink.Record{
		Event:     shape.Event{Topic: "t", Position: wal.Position{Lineage: 1, Commit: wal.LSN(n)}, DedupeKey: fmt.Sprint(n)},
		Partition: partition,
	}
}

func start(t *testing.T) (context.Context, *sinktest.Recorder, *sinktest.Ledger) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	l := sinktest.NewLedger()
	r := sinktest.NewRecorder(l)
	t.Cleanup(func() {
		if _, err := l.Close(ctx, r); err != nil {
			t.Error(err)
		}
		l.Check(t)
		cancel()
	})
	return ctx, r, l
}

func TestRecorderHoldAndPass(t *testing.T) {
	ctx, r, l := start(t)
	r.Hold()
	for n := range 10 {
		if err := l.Produce(ctx, r, record(int32(n%2), n)); err != nil {
			t.Fatal(err)
		}
	}
	r.Pass("t", 1, 3)
	l.Wait(ctx, t, "passing three", func() bool { return len(l.Acks("t", 1)) == 3 })
	if c := r.Counts(); c.Taken != 10 || c.Published != 3 {
		t.Errorf("on hold with three let through: %+v", c)
	}
	r.Release()
	if err := r.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if c := r.Counts(); c != (sinktest.Counts{Taken: 10, Published: 10, Acked: 10}) || c.Open() != 0 {
		t.Errorf("after the release: %+v", c)
	}
}

// What is published while its report is held back is what a crash repeats.
func TestRecorderHoldAcks(t *testing.T) {
	ctx, r, l := start(t)
	r.HoldAcks()
	for n := range 5 {
		if err := l.Produce(ctx, r, record(0, n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Wait(ctx, func(c sinktest.Counts) bool { return c.Published == 5 }); err != nil {
		t.Fatal(err)
	}
	if c := r.Counts(); c.Acked != 0 || len(r.Published("t", 0)) != 5 {
		t.Errorf("reports held back: %+v, %d published", c, len(r.Published("t", 0)))
	}
	if left, err := l.Close(ctx, r); left != 5 || err != nil {
		t.Errorf("close returned %d and %v, want 5", left, err)
	}
}

// With reports held back, the question about a refused record waits for them.
func TestRecorderHoldAcksAndRefuse(t *testing.T) {
	ctx, r, l := start(t)
	l.Verdict = func(context.Context, *sink.Record, error) (sink.Verdict, error) { return sink.Settled, nil }
	r.HoldAcks()
	r.Refuse(wal.Position{Lineage: 1, Commit: 2}, errors.New("too large"))
	for n := range 4 {
		if err := l.Produce(ctx, r, record(0, n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Wait(ctx, func(c sinktest.Counts) bool { return c.Published == 2 }); err != nil {
		t.Fatal(err)
	}
	r.Release()
	if err := r.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if c := r.Counts(); c != (sinktest.Counts{Taken: 4, Published: 3, Acked: 3, Settled: 1, Rejects: 1}) {
		t.Errorf("got %+v", c)
	}
}

func TestRecorderStall(t *testing.T) {
	ctx, r, l := start(t)
	r.Stall()
	short, cancel := context.WithCancel(ctx)
	var returned atomic.Bool
	result := make(chan error, 1)
	go func() {
		err := l.Produce(short, r, record(0, 1))
		returned.Store(true)
		result <- err
	}()
	if returned.Load() {
		t.Error("produce did not block")
	}
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("produce returned %v, want the context's error", err)
	}
	r.Release()
	if err := l.Produce(ctx, r, record(0, 2)); err != nil {
		t.Error(err)
	}
	gone, stop := context.WithCancel(ctx)
	stop()
	if err := r.Wait(gone, func(sinktest.Counts) bool { return false }); !errors.Is(err, context.Canceled) {
		t.Errorf("wait returned %v", err)
	}
}
