package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// follower is a consumer that reads the topic while the demo runs: it counts the events that
// have arrived, each once, and remembers when.
type follower struct {
	client *kgo.Client
	events atomic.Int64
	wg     sync.WaitGroup
	// fetching is closed when the first fetch was answered. A consumer takes a second to get
	// there, which is none of the relay's latency.
	fetching chan struct{}
	once     sync.Once

	mu      sync.Mutex
	arrived map[int64]time.Time // by the event's id
	latest  time.Time
	err     error
}

// follow begins to read at the topic's start.
func follow(brokers []string, topic string) (*follower, error) {
	f := &follower{arrived: map[int64]time.Time{}, fetching: make(chan struct{})}
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100*time.Millisecond), kgo.WithHooks(f))
	if err != nil {
		return nil, fmt.Errorf("read topic %s: %w", topic, err)
	}
	f.client = client
	f.wg.Go(f.run)
	return f, nil
}

// OnBrokerE2E implements kgo.HookBrokerE2E: it sees each answer of a broker.
func (f *follower) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, e2e kgo.BrokerE2E) {
	if key == int16(kmsg.Fetch) && e2e.Err() == nil {
		f.once.Do(func() { close(f.fetching) })
	}
}

// ready says whether the reading has begun.
func (f *follower) ready() bool {
	select {
	case <-f.fetching:
		return true
	default:
		return false
	}
}

func (f *follower) run() {
	for {
		fetches := f.client.PollFetches(context.Background())
		if fetches.IsClientClosed() {
			return
		}
		err := fetches.Err()
		fetches.EachRecord(func(r *kgo.Record) {
			id, e := eventID(r)
			if e != nil {
				err = errors.Join(err, e)
				return
			}
			f.arrive(id)
		})
		if err != nil {
			f.mu.Lock()
			f.err = err
			f.mu.Unlock()
		}
	}
}

func (f *follower) arrive(id int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.arrived[id]; ok {
		return
	}
	f.latest = time.Now()
	f.arrived[id] = f.latest
	f.events.Add(1)
}

func (f *follower) stop() {
	f.client.Close()
	f.wg.Wait()
}

// failed returns the last error of the reading.
func (f *follower) failed() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return fmt.Errorf("read the topic: %w", f.err)
	}
	return nil
}

// last is when the last event arrived.
func (f *follower) last() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.latest
}

// latency is from each commit's return at the service to the event's arrival here.
func (f *follower) latency(commits []commit) *Latency {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []time.Duration
	for _, c := range commits {
		if at, ok := f.arrived[c.id]; ok {
			// An event may be here before the service hears that its commit is done.
			all = append(all, max(0, at.Sub(c.at)))
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.Sort(all)
	at := func(q float64) Milliseconds {
		return Milliseconds(all[min(len(all)-1, int(q*float64(len(all))))])
	}
	return &Latency{P50: at(0.50), P99: at(0.99), Max: Milliseconds(all[len(all)-1])}
}

// eventID is the id of the outbox row that a record says it was made from: the end of its
// dedupe key.
func eventID(r *kgo.Record) (int64, error) {
	key := header(r, "dedupe_key")
	id, err := strconv.ParseInt(key[strings.LastIndexByte(key, ':')+1:], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the record at %d/%d has the dedupe key %q, which ends with no id", r.Partition, r.Offset, key)
	}
	return id, nil
}

// header returns the value of a record's header, empty where it has none.
func header(r *kgo.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}
