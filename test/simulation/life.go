package simulation

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/cdc-relay/cdc-relay/checkpoint"
	"github.com/cdc-relay/cdc-relay/internal/relay"
	"github.com/cdc-relay/cdc-relay/shard"
	"github.com/cdc-relay/cdc-relay/sink"
	"github.com/cdc-relay/cdc-relay/sink/kafka"
	"github.com/cdc-relay/cdc-relay/wal"
)

// life is one process: a relay from its start to its end. Everything in it is the real relay,
// everything around it is the world's.
type life struct {
	world *world
	n     int
	token checkpoint.Owner

	dead    atomic.Bool // it has crashed: what it still does reaches nobody
	stop    context.CancelFunc
	done    chan error
	gone    chan struct{}
	asked   bool // it was asked to stop
	askedAt time.Time
	stuck   atomic.Bool

	sessions int
	read     wal.LSN     // the stored position, when the session's start was decided
	known    wal.LSN     // the greatest stored position that it was told
	troubled atomic.Bool // Postgres gave it an error since its last START
	// lookedFor: a table of the stream was gone when it was looked up last, so the relay halts, maybe behind the last event.
	lookedFor atomic.Bool
	disowned  bool           // it was told that another relay owns the row
	unsure    int            // events that a write covered whose answer was lost
	handed    map[*event]int // to the sink, by the session that did it last
	before    map[*event]int // those of them from before it was disowned
	refused   *event         // that Kafka refuses, and nothing may pass
	passed    int            // records that were taken since
	events    int            // taken for Kafka and not acknowledged
	bytes     int64          // of those

	mu     sync.Mutex
	stayed []string // positions of records that the relay wanted to hand over as its session ended
	conns  []*conn
	sink   *kafka.Sink
}

// begin starts a life.
func (w *world) begin() {
	w.lives++
	l := &life{world: w, n: w.lives, done: make(chan error, 1), gone: make(chan struct{}), handed: map[*event]int{}}
	l.token[0] = byte(l.n)
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	pinner := &relay.Pinner{Store: store{l}, Partitions: l.partitions, Wanted: shard.Contract{Hash: shard.SHA256}, Log: zerolog.Nop()}
	r := relay.New(relay.Config{
		Slot: slotName, Publication: publication,
		Origins: origins{l}, Store: store{l}, Catalog: store{l}, Contracts: pinner,
		Sink:   l.open,
		Check:  func(ctx context.Context) error { return pinner.Check(ctx, topicName) },
		Limits: checkpoint.Limits{Events: w.limits.events, Bytes: w.limits.bytes},
		Drain:  w.drain,
		Log:    w.log,
	})
	w.life = l
	go func() {
		defer close(l.gone)
		l.done <- r.Run(ctx)
	}()
}

// open opens the real sink. Its pauses are as good as none: they are random, and only the seed may
// decide what comes when.
func (l *life) open(h sink.Handler) (sink.Sink, error) {
	s, err := kafka.Open(context.Background(), kafka.Config{
		Brokers: []string{"a:9092"}, Compression: "none", BatchBytes: l.world.batch, RequestBytes: 4 * l.world.batch,
		MinBackoff: 1, MaxBackoff: 1, SlowBackoff: 1, MetadataInterval: 1000 * time.Hour,
		Dial: l.dial, Log: l.world.log,
	}, gateHandler{h, l})
	if err != nil {
		return nil, err
	}
	l.sink = s
	return &gateSink{s, l}, nil
}

func (l *life) partitions(ctx context.Context, topic string) (int32, error) {
	info, err := l.sink.Topic(ctx, topic)
	if err != nil {
		return 0, fmt.Errorf("count the partitions: %w", err)
	}
	return info.Partitions, nil
}

func (l *life) opened(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = append(l.conns, c)
	c.tie = len(l.conns)
}

func (l *life) connections() []*conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.conns)
}

// ask asks the relay to stop.
func (l *life) ask() {
	l.asked, l.askedAt = true, time.Now()
	l.stop()
}

// crash ends the life between two instructions. What it had asked for may still happen.
func (l *life) crash() {
	w := l.world
	l.dead.Store(true)
	for _, o := range w.board.of(l) {
		if o.landed != nil && w.lands() {
			o.landed()
		}
		if o.dead != nil {
			o.dead()
		}
	}
	for _, c := range l.connections() {
		c.cut(nil)
	}
	streamed := w.pg.source != nil && w.pg.source.l == l
	l.stop()
	l.bury()
	if streamed {
		w.pg.detach()
		if w.rng.IntN(3) == 0 { // the server learns of it later
			w.pg.slot.held = time.Now().Add(time.Duration(w.rng.IntN(9)) * time.Second)
		}
	}
}

// grave is how long the goroutines of a life may need to end.
const grave = time.Minute

// bury waits until the goroutines of a life that is over are gone. It always takes the same time:
// what they still do is nobody's to see.
func (l *life) bury() {
	over := time.After(grave)
	select {
	case <-l.gone:
		<-over
	case <-over:
		panic(fmt.Sprintf("life %d doesn't end", l.n))
	}
	l.world.life = nil
}

// gateSink makes an operation of each record that the relay hands to the sink.
type gateSink struct {
	*kafka.Sink
	l *life
}

// Produce implements sink.Sink.
func (s *gateSink) Produce(ctx context.Context, r *sink.Record) error {
	_, err := call(ctx, s.l, "produce "+r.Position.String(), nil, func(string) (struct{}, error) {
		s.l.world.rules.taken(s.l, r)
		return struct{}{}, nil
	})
	if err != nil {
		s.l.mu.Lock()
		defer s.l.mu.Unlock()
		s.l.stayed = append(s.l.stayed, headerOf(r))
		return err
	}
	return s.Sink.Produce(ctx, r)
}

// gateHandler makes an operation of each ack on its way from the sink to the relay.
type gateHandler struct {
	sink.Handler
	l *life
}

// Acked implements sink.Handler.
func (h gateHandler) Acked(rs []*sink.Record) {
	key := fmt.Sprintf("acks p%d %d", rs[0].Partition, len(rs))
	_, err := call(context.Background(), h.l, key, nil, func(string) (struct{}, error) {
		for _, r := range rs {
			h.l.world.rules.acked(h.l, r)
		}
		return struct{}{}, nil
	})
	if err == nil {
		h.Handler.Acked(rs)
	}
}

// Reject implements sink.Handler.
func (h gateHandler) Reject(ctx context.Context, r *sink.Record, cause error) (sink.Verdict, error) {
	_, err := call(ctx, h.l, "reject "+r.Position.String(), nil, func(string) (struct{}, error) {
		h.l.world.rules.rejected(h.l, r)
		return struct{}{}, nil
	})
	if err != nil {
		return sink.Retry, err
	}
	return h.Handler.Reject(ctx, r, cause)
}

// Topic implements sink.Handler.
func (h gateHandler) Topic(topic string, err error) {
	h.l.topic(err)
	h.Handler.Topic(topic, err)
}
