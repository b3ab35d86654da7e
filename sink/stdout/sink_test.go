package stdout_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/cdc-relay/cdc-relay/decode/shape"
	"github.com/cdc-relay/cdc-relay/sink"
	"github.com/cdc-relay/cdc-relay/sink/sinktest"
	"github.com/cdc-relay/cdc-relay/sink/stdout"
	"github.com/cdc-relay/cdc-relay/wal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// screen is a standard output that can be held up.
type screen struct {
	gate sync.Mutex // held: writes block
	mu   sync.Mutex
	buf  bytes.Buffer
}

func (s *screen) Write(b []byte) (int, error) {
	s.gate.Lock()
	defer s.gate.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(b)
}

func (s *screen) lines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.SplitAfter(s.buf.String(), "\n")
}

func TestConforms(t *testing.T) {
	sinktest.Run(t, func(t *testing.T) sinktest.Subject {
		out := &screen{}
		counts := make(map[string]int32)
		return sinktest.Subject{
			Open: func(_ *testing.T, h sink.Handler) sink.Sink { return stdout.New(out, h) },
			Topic: func(_ *testing.T, n int32) string {
				topic := fmt.Sprintf("topic-%d", len(counts))
				counts[topic] = n
				return topic
			},
			Read: func(t *testing.T, topic string) [][]sinktest.Stored {
				parts := make([][]sinktest.Stored, counts[topic])
				for _, line := range out.lines() {
					if line == "" {
						continue // after the last newline
					}
					l := parse(t, line)
					if l.Topic == topic {
						parts[l.Partition] = append(parts[l.Partition], l.stored(t))
					}
				}
				return parts
			},
			Stall: func(*testing.T) func() {
				out.gate.Lock()
				return out.gate.Unlock
			},
		}
	})
}

// line is what a reader in any language would see.
type line struct {
	Topic       string
	Partition   int32
	Position    string
	DedupeKey   string  `json:"dedupe_key"`
	TimestampMs int64   `json:"timestamp_ms"`
	Key         *string `json:"key"`
	Key64       *string `json:"key_base64"`
	Value       *string `json:"value"`
	Value64     *string `json:"value_base64"`
	Headers     []struct {
		Key     *string `json:"key"`
		Key64   *string `json:"key_base64"`
		Value   *string `json:"value"`
		Value64 *string `json:"value_base64"`
	}
}

func parse(t *testing.T, s string) line {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(s))
	d.DisallowUnknownFields()
	var l line
	if err := d.Decode(&l); err != nil {
		t.Fatalf("line %q: %v", s, err)
	}
	return l
}

func (l line) stored(t *testing.T) sinktest.Stored {
	t.Helper()
	out := sinktest.Stored{Key: read(t, l.Key, l.Key64), Value: read(t, l.Value, l.Value64), TimestampMs: l.TimestampMs}
	for _, h := range l.Headers {
		out.Headers = append(out.Headers, shape.Header{Key: string(read(t, h.Key, h.Key64)), Value: read(t, h.Value, h.Value64)})
	}
	return out
}

func read(t *testing.T, text, b64 *string) []byte {
	t.Helper()
	switch {
	case text != nil:
		return append([]byte{}, *text...)
	case b64 != nil:
		b, err := base64.StdEncoding.DecodeString(*b64)
		if err != nil {
			t.Fatal(err)
		}
		return b
	default:
		return nil
	}
}

func event(n int) *sink.Record {
	return &sink.Record{
		Event: shape.Event{
			Topic: "orders", Position: wal.Position{Lineage: 1, Commit: 0x1A2B3C4, Seq: uint32(n)},
			DedupeKey: fmt.Sprintf("order.created:o-1:%d", n), TimestampMs: 1700000000123,
			Key: []byte("o-1"), Value: []byte(`{"total": 12.50}`), Headers: []shape.Header{{Key: "event_id", Value: []byte("42")}, {Key: "x"}},
		},
		Partition: 3,
	}
}

func TestLine(t *testing.T) {
	const want = `{"topic":"orders","partition":3,"position":"0001:0000000001A2B3C4:0000000000",` +
		`"dedupe_key":"order.created:o-1:0","timestamp_ms":1700000000123,"key":"o-1","value":"{\"total\": 12.50}",` +
		`"headers":[{"key":"event_id","value":"42"},{"key":"x","value":null}]}` + "\n"
	out := &screen{}
	publish(t, out, event(0))
	if got := strings.Join(out.lines(), ""); got != want {
		t.Errorf("got  %swant %s", got, want)
	}
}

// Text and base64 can't be taken for each other, nor can null and the text null.
func TestLineIsUnambiguous(t *testing.T) {
	for _, tc := range []struct {
		value []byte
		want  string
	}{
		{nil, `"value":null`},
		{[]byte("null"), `"value":"null"`},
		{[]byte{}, `"value":""`},
		{[]byte{0xff}, `"value_base64":"/w=="`},
		{[]byte("/w=="), `"value":"/w=="`},
		{[]byte(`"a"`), `"value":"\"a\""`},
		{[]byte("\x00\x1f\x7f\n\r\t\\"), `"value":"\u0000\u001f` + "\x7f" + `\n\r\t\\"`},
		{[]byte("<é\u2028>"), `"value":"<é` + "\u2028" + `>"`},
	} {
		out := &screen{}
		r := event(0)
		r.Value = tc.value
		publish(t, out, r)
		if got := strings.Join(out.lines(), ""); !strings.Contains(got, tc.want+`,"headers"`) {
			t.Errorf("value %q: got %s, want %s in it", tc.value, got, tc.want)
		}
	}
}

func publish(t *testing.T, w io.Writer, rs ...*sink.Record) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	l := sinktest.NewLedger()
	s := stdout.New(w, l)
	for _, r := range rs {
		if err := l.Produce(ctx, s, r); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Close(ctx, s); err != nil {
		t.Fatal(err)
	}
	l.Check(t)
}

// Nobody needs to flush: an idle sink has written everything.
func TestWritesAtOnce(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	l := sinktest.NewLedger()
	s := stdout.New(&screen{}, l)
	for n := range 3 {
		if err := l.Produce(ctx, s, event(n)); err != nil {
			t.Fatal(err)
		}
		l.Wait(ctx, t, "the ack", func() bool { return len(l.Acks("orders", 3)) == n+1 })
	}
	if _, err := l.Close(ctx, s); err != nil {
		t.Error(err)
	}
	l.Check(t)
}

func TestWriteErrorIsFinal(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("no /dev/full on this system: %v", err)
	}
	defer full.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		w    io.Writer
		err  error
	}{{"full disk", full, syscall.ENOSPC}, {"closed pipe", w, syscall.EPIPE}} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			l := sinktest.NewLedger()
			s := stdout.New(tc.w, l)
			if err := l.Produce(ctx, s, event(0)); err != nil {
				t.Fatal(err)
			}
			if err := s.Flush(ctx); !errors.Is(err, tc.err) {
				t.Errorf("flush: %v, want %v", err, tc.err)
			}
			l.Wait(ctx, t, "the report of the topic", func() bool { return len(l.Topics()) == 1 })
			if got := l.Topics()[0]; got.Topic != "orders" || !errors.Is(got.Err, tc.err) {
				t.Errorf("topic reported as %v", got)
			}
			if err := l.Produce(ctx, s, event(1)); !errors.Is(err, tc.err) {
				t.Errorf("produce: %v, want %v", err, tc.err)
			}
			if left, err := l.Close(ctx, s); left != 1 || !errors.Is(err, tc.err) {
				t.Errorf("close returned %d and %v, want 1 and %v", left, err, tc.err)
			}
			if len(l.Acks("orders", 3)) != 0 {
				t.Error("an event was acked that could not be written")
			}
			l.Check(t)
		})
	}
}

// A write that comes back after Close gave it up reports nothing any more.
func TestLateWriteIsSilent(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	l := sinktest.NewLedger()
	r, w := io.Pipe()
	s := stdout.New(w, l)
	if err := l.Produce(ctx, s, event(0)); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(r)
	if _, err := in.Peek(1); err != nil { // the writer is in mid-line
		t.Fatal(err)
	}
	cancel()
	if left, _ := l.Close(ctx, s); left != 1 {
		t.Errorf("close counted %d, want 1", left)
	}
	if _, err := in.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if left, _ := s.Close(context.Background()); left != 1 { // waits for the writer
		t.Errorf("the second close counted %d, want 1", left)
	}
	l.Check(t)
}

// stepper is a writer that asks before each write, and then waits.
type stepper struct {
	asked chan int // bytes to write
	let   chan struct{}
}

func (s *stepper) Write(b []byte) (int, error) {
	s.asked <- len(b)
	<-s.let
	return len(b), nil
}

// A backlog that the writer has taken in one go is not written out after Close.
func TestCloseCutsABacklog(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	w := &stepper{asked: make(chan int), let: make(chan struct{})}
	l := sinktest.NewLedger()
	s := stdout.New(w, l)
	const n = 10_000
	for i := range n {
		if err := l.Produce(ctx, s, event(i)); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			<-w.asked // the rest is queued behind the first
		}
	}
	w.let <- struct{}{}
	if size := <-w.asked; size > 128<<10 { // a chunk and a line
		t.Errorf("one write of %d bytes", size)
	}
	result := make(chan int)
	go func() {
		left, _ := l.Close(ctx, s)
		result <- left
	}()
	for i := n; l.Produce(ctx, s, event(i)) == nil; i++ { // until Close has begun
	}
	w.let <- struct{}{}
	select {
	case size := <-w.asked:
		t.Errorf("another %d bytes were to be written after Close", size)
	case left := <-result:
		if left < n/2 {
			t.Errorf("close counted %d of %d", left, n)
		}
	}
	l.Check(t)
}

func BenchmarkEncode(b *testing.B) {
	ctx := context.Background()
	s := stdout.New(io.Discard, drop{})
	r := event(1)
	r.Value = bytes.Repeat([]byte(`{"a": 1}`), 40)
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Produce(ctx, r); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Flush(ctx); err != nil {
		b.Fatal(err)
	}
	if _, err := s.Close(ctx); err != nil {
		b.Fatal(err)
	}
}

type drop struct{}

func (drop) Acked([]*sink.Record) {}
func (drop) Topic(string, error)  {}
func (drop) Reject(context.Context, *sink.Record, error) (sink.Verdict, error) {
	return sink.Settled, nil
}
