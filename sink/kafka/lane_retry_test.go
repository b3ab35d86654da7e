package kafka

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/IBM/sarama"

	"github.com/cdc-relay/cdc-relay/sink"
)

// TestLaneNeverGivesUp: whatever the answer is, but a refusal of the records or of the sequence,
// the same batch is sent again, for as long as it takes.
func TestLaneNeverGivesUp(t *testing.T) {
	for _, ev := range []event{
		{class: refused, code: 19},
		{class: moved, code: 6},
		{class: missing, code: codeUnknownTopic},
		{class: stopped, code: codeTopicAuth},
		{class: strange, code: 999},
		{class: unknown, code: 7},
		{class: unknown, cut: true},
		{class: unknown, cut: true, alone: true},
	} {
		t.Run(fmt.Sprintf("class %d, cut %t, alone %t", ev.class, ev.cut, ev.alone), func(t *testing.T) {
			ev.kind, ev.offset = evAnswer, -1
			l := newLane(1 << 20)
			l.step(event{kind: evAppend, record: &sink.Record{}, size: 100}, nil)
			l.step(event{kind: evID, id: 7}, nil)
			for n := range 1000 {
				out := l.step(event{kind: evTake, limit: 1 << 30}, nil)
				if got := render(out); got != "send 0 id=7 epoch=0 seq=0" {
					t.Fatalf("attempt %d: %q, want the batch as it was", n+1, got)
				}
				l.step(ev, nil)
				if l.state != backingOff {
					t.Fatalf("attempt %d: state %d, want a pause", n+1, l.state)
				}
				l.step(event{kind: evTimer}, nil)
			}
			if got := render(l.step(event{kind: evTake, limit: 1 << 30}, nil)); got == "" {
				t.Fatal("it isn't sent any more")
			}
			out := l.step(event{kind: evAnswer, class: acked, offset: 0}, nil)
			if len(out) == 0 || out[len(out)-1].kind != actReport {
				t.Errorf("acknowledged at last: %s", render(out))
			}
		})
	}
}

// TestWaitingKeepsNoEncodedForm: a lane that waits for the next attempt holds the records and not
// what they were encoded to as well; in an outage all of them wait.
func TestWaitingKeepsNoEncodedForm(t *testing.T) {
	l := newLane(1 << 20)
	l.step(event{kind: evAppend, record: record("orders", 0, 0), size: 100}, nil)
	l.step(event{kind: evID, id: 7}, nil)
	for _, ev := range []event{{class: refused}, {class: moved}, {class: unknown}, {class: stopped}} {
		out := l.step(event{kind: evTake, limit: 1 << 30}, nil)
		out[0].batch.encode(sarama.CompressionNone)
		ev.kind = evAnswer
		l.step(ev, nil)
		if l.cur.wire != nil {
			t.Errorf("after class %d the encoded form is kept", ev.class)
		}
		l.step(event{kind: evTimer}, nil)
	}
}

// TestFreedMemoryIsEmpty: what goes back into a pool refers to nothing any more, and a piece
// leaves the memory of its whole alone.
func TestFreedMemoryIsEmpty(t *testing.T) {
	b := newBatch()
	for i := range 20 {
		b.records = append(b.records, record("orders", 0, i))
	}
	b.encode(sarama.CompressionNone)
	rs, recs, headers := b.records, b.wire.records, b.wire.headers
	piece := b.slice(5, 10)
	piece.encode(sarama.CompressionNone)
	piece.free()
	for i, r := range rs {
		if r == nil {
			t.Fatalf("record %d of the whole went with its piece", i)
		}
	}
	b.free()
	for i := range rs {
		if rs[i] != nil {
			t.Fatalf("a freed batch holds record %d", i)
		}
		if recs[i].Key != nil || recs[i].Value != nil || recs[i].Headers != nil {
			t.Fatalf("a freed encoder holds record %d", i)
		}
	}
	for i := range headers {
		if headers[i].Key != nil || headers[i].Value != nil {
			t.Fatalf("a freed encoder holds header %d", i)
		}
	}
}

// TestBackoff: the pause doubles, stays within its bounds and is spread.
func TestBackoff(t *testing.T) {
	const lo, hi = 50 * time.Millisecond, time.Second
	full := lo
	for n := 1; n <= 100; n++ {
		seen := make(map[time.Duration]bool)
		for range 50 {
			d := backoff(n, lo, hi)
			if d < full/2 || d > full {
				t.Fatalf("attempt %d: a pause of %s, want %s to %s", n, d, full/2, full)
			}
			seen[d] = true
		}
		if len(seen) < 2 {
			t.Fatalf("attempt %d: each pause is the same, so that all lanes come back at once", n)
		}
		full = min(2*full, hi)
	}
}

// TestWaitsBeforeTheNextAttempt: between two attempts there is the pause of the configuration,
// and the long one while the topic can't be published to.
func TestWaitsBeforeTheNextAttempt(t *testing.T) {
	b, ps := standing(t, 2, func(cfg *Config) {
		cfg.MinBackoff, cfg.MaxBackoff, cfg.SlowBackoff = time.Hour, 2*time.Hour, 100*time.Hour
	})
	req := b.collect()
	if len(req.parts) != 2 {
		t.Fatalf("a request of %d partitions, want 2", len(req.parts))
	}
	b.inFlight = 1
	res := new(sarama.ProduceResponse)
	res.AddTopicPartition("orders", 0, sarama.ErrNotEnoughReplicas)
	res.AddTopicPartition("orders", 1, sarama.ErrTopicAuthorizationFailed)
	b.answered(req, res, nil, unknown)
	c := b.sink.clock
	c.mu.Lock()
	defer c.mu.Unlock()
	least := map[*partition]time.Duration{ps[0]: 20 * time.Minute, ps[1]: 40 * time.Hour}
	for _, a := range c.queue {
		if d := time.Until(a.at); d < least[a.p] {
			t.Errorf("partition %d waits for %s, want at least %s", a.p.num, d, least[a.p])
		}
		delete(least, a.p)
	}
	for p := range least {
		t.Errorf("partition %d doesn't wait: state %d", p.num, p.lane.state)
	}
}

// TestPiecesEncodeAsTheyWere: the pieces of a split batch count from their own beginning.
func TestPiecesEncodeAsTheyWere(t *testing.T) {
	b := newBatch()
	for i := range 6 {
		b.records = append(b.records, record("orders", 0, i))
	}
	for _, at := range []span{{0, 2}, {2, 3}, {3, 6}} {
		p := b.slice(at.from, at.to)
		rb := p.encode(sarama.CompressionNone)
		if int(rb.LastOffsetDelta) != at.to-at.from-1 || len(rb.Records) != at.to-at.from {
			t.Fatalf("piece %v: last offset delta %d of %d records", at, rb.LastOffsetDelta, len(rb.Records))
		}
		for i, r := range rb.Records {
			if want := b.records[at.from+i]; !bytes.Equal(r.Value, want.Value) || r.OffsetDelta != int64(i) {
				t.Errorf("piece %v, record %d: %q at %d, want %q", at, i, r.Value, r.OffsetDelta, want.Value)
			}
		}
	}
}
