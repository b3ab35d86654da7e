package sinktest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/decode/shape"
	"github.com/cdc-relay/cdc-relay/sink"
	"github.com/cdc-relay/cdc-relay/wal"
)

// Subject is a sink under test and what the suite needs around it. What is optional is nil
// where the subject can't do it; the cases that need it are left out.
type Subject struct {
	// Open makes a sink that reports to h.
	Open func(t *testing.T, h sink.Handler) sink.Sink
	// Topic makes an empty topic and returns its name.
	Topic func(t *testing.T, partitions int32) string
	// Read returns all of a topic, by partition and in order.
	Read func(t *testing.T, topic string) [][]Stored

	// Stall keeps records from being settled until resume is called. Optional.
	Stall func(t *testing.T) (resume func())
	// Poison says how to make records of a topic that the other side refuses. Optional.
	Poison func(t *testing.T, topic string) Poison
	// Outage makes a topic as a whole unpublishable until mend is called. Optional.
	Outage func(t *testing.T, topic string) (mend func())
}

// Poison makes a record refused, and all refused ones of its topic acceptable again.
type Poison struct {
	Spoil func(r *sink.Record)
	Heal  func()
}

// Stored is a record as it was read back.
type Stored struct {
	Key, Value  []byte
	Headers     []shape.Header
	TimestampMs int64
}

// patience bounds every wait of the suite. It only passes when something is broken.
const patience = 2 * time.Minute

// Run checks a sink against the contract in package sink. open is called for every case.
func Run(t *testing.T, open func(t *testing.T) Subject) {
	always := func(Subject) bool { return true }
	stalls := func(s Subject) bool { return s.Stall != nil }
	refuses := func(s Subject) bool { return s.Poison != nil }
	fails := func(s Subject) bool { return s.Outage != nil }
	for _, c := range []struct {
		name string
		can  func(Subject) bool
		run  func(*rig)
	}{
		{"order in each partition", always, order},
		{"many partitions", always, manyPartitions},
		{"bytes are exact", always, exactBytes},
		{"big and small", always, bigValues},
		{"timestamps are exact", always, timestamps},
		{"records come back untouched", always, untouched},
		{"flush", always, flush},
		{"flush waits for the reports", always, flushReports},
		{"flush ends with its context", stalls, flushEnds},
		{"close when idle", always, closeIdle},
		{"close counts what is unsettled", stalls, closeCounts},
		{"close stops at once", stalls, closeStops},
		{"close in mid-traffic", always, closeInTraffic},
		{"produce refuses", always, produceRefuses},
		{"rejected records settled elsewhere", refuses, rejectSettled},
		{"a verdict holds only its partition", refuses, rejectHolds},
		{"a rejected record accepted later", refuses, rejectHeals},
		{"a verdict comes after the acks before it", refuses, rejectLast},
		{"close during a verdict", refuses, rejectClose},
		{"a topic fails and heals", fails, topicFails},
	} {
		t.Run(c.name, func(t *testing.T) {
			sub := open(t)
			if !c.can(sub) {
				t.Log("not for this sink")
				return
			}
			c.run(newRig(t, sub))
		})
	}
}

// rig is one case's subject, sink and ledger.
type rig struct {
	*testing.T
	ctx    context.Context
	sub    Subject
	ledger *Ledger
	sink   sink.Sink
	rng    *rand.Rand
	made   int
	closed bool
}

func newRig(t *testing.T, sub Subject) *rig {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	r := &rig{T: t, ctx: ctx, sub: sub, ledger: NewLedger(), rng: rand.New(rand.NewPCG(1, 2))}
	r.sink = sub.Open(t, r.ledger)
	t.Cleanup(func() {
		r.close(ctx)
		r.ledger.Check(t)
	})
	return r
}

// close closes the sink once, through the ledger.
func (r *rig) close(ctx context.Context) (int, error) {
	if r.closed {
		return 0, nil
	}
	r.closed = true
	return r.ledger.Close(ctx, r.sink)
}

// event makes the next record of the stream.
func (r *rig) event(topic string, partition int32) *sink.Record {
	r.made++
	id := fmt.Sprintf("made:e-%d:%d", partition, r.made)
	return &sink.Record{
		Event: shape.Event{
			Position:    wal.Position{Lineage: 1, Commit: wal.LSN(r.made)},
			Topic:       topic,
			ShardKey:    []byte("e"),
			Key:         fmt.Appendf(nil, "e-%d", partition),
			Value:       fmt.Appendf(nil, `{"n":%d}`, r.made),
			Headers:     []shape.Header{{Key: "dedupe_key", Value: []byte(id)}},
			TimestampMs: 1_700_000_000_000 + int64(r.made),
			DedupeKey:   id,
		},
		Partition: partition,
		Ticket:    uint64(r.made),
	}
}

func (r *rig) produce(rs ...*sink.Record) {
	r.Helper()
	for _, rec := range rs {
		if err := r.ledger.Produce(r.ctx, r.sink, rec); err != nil {
			r.Fatalf("produce %s: %v", name(rec), err)
		}
	}
}

func (r *rig) flush() {
	r.Helper()
	if err := r.sink.Flush(r.ctx); err != nil {
		r.Fatalf("flush: %v", err)
	}
	if n := r.ledger.Open(); n != 0 {
		r.Fatalf("flush returned with %d records unsettled", n)
	}
}

func (r *rig) wait(what string, ok func() bool) {
	r.Helper()
	r.ledger.Wait(r.ctx, r.T, what, ok)
}

// holds compares a topic with the records that should be in it, by partition.
func (r *rig) holds(topic string, want [][]*sink.Record) {
	r.Helper()
	got := r.sub.Read(r.T, topic)
	if len(got) < len(want) {
		got = append(got, make([][]Stored, len(want)-len(got))...)
	}
	for p := range got {
		var in []*sink.Record
		if p < len(want) {
			in = want[p]
		}
		if len(got[p]) != len(in) {
			r.Errorf("partition %d of %s holds %d records, want %d", p, topic, len(got[p]), len(in))
		}
		for i := range min(len(in), len(got[p])) {
			if d := differ(in[i], got[p][i]); d != "" {
				r.Errorf("partition %d of %s, record %d (%s): %s", p, topic, i, in[i].DedupeKey, d)
				break // the rest is shifted
			}
		}
	}
}

// differ says in what a stored record isn't the one that was produced.
func differ(in *sink.Record, got Stored) string {
	if !same(in.Key, got.Key) {
		return fmt.Sprintf("key is %.60q (null %v), want %.60q (null %v)", got.Key, got.Key == nil, in.Key, in.Key == nil)
	}
	if !same(in.Value, got.Value) {
		return fmt.Sprintf("value is %.60q of %d bytes (null %v), want %.60q of %d bytes (null %v)",
			got.Value, len(got.Value), got.Value == nil, in.Value, len(in.Value), in.Value == nil)
	}
	if in.TimestampMs != got.TimestampMs {
		return fmt.Sprintf("timestamp is %d, want %d", got.TimestampMs, in.TimestampMs)
	}
	if len(in.Headers) != len(got.Headers) {
		return fmt.Sprintf("%d headers, want %d", len(got.Headers), len(in.Headers))
	}
	for i, h := range in.Headers {
		if g := got.Headers[i]; g.Key != h.Key || !same(g.Value, h.Value) {
			return fmt.Sprintf("header %d is %q: %.60q (null %v), want %q: %.60q (null %v)",
				i, g.Key, g.Value, g.Value == nil, h.Key, h.Value, h.Value == nil)
		}
	}
	return ""
}

func same(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }
