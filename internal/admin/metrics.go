package admin

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/cdc-relay/cdc-relay/internal/relay"
)

// metrics counts what the relay reports. Once a label value has been seen, nothing here
// allocates or takes a lock.
type metrics struct {
	registry *prometheus.Registry

	published *family
	errors    *family2
	rejected  *family
	reconnect *family
	ignored   *family
	writes    prometheus.Counter
	ack       prometheus.Histogram
	largest   atomic.Int64
}

func (d definition) opts() prometheus.Opts {
	return prometheus.Opts{Namespace: namespace, Name: d.name, Help: d.help}
}

func (d definition) desc() *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", d.name), d.help, nil, nil)
}

func newMetrics(status func() relay.Status, now func() time.Time) *metrics {
	m := &metrics{
		registry:  prometheus.NewRegistry(),
		published: newFamily(definitions[eventsPublished]),
		errors:    newFamily2(definitions[publishErrors]),
		rejected:  newFamily(definitions[rejected]),
		reconnect: newFamily(definitions[reconnects]),
		ignored:   newFamily(definitions[ignored]),
		writes:    prometheus.NewCounter(prometheus.CounterOpts(definitions[checkpointWrites].opts())),
	}
	ack := definitions[commitToAck]
	m.ack = prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Name: ack.name, Help: ack.help, Buckets: ackBuckets})
	m.registry.MustRegister(
		m.published.vec, m.errors.vec, m.rejected.vec, m.reconnect.vec, m.ignored.vec, m.writes, m.ack,
		&snapshot{status: status, now: now, largest: &m.largest},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

// events are the callbacks for the relay.
func (m *metrics) events() relay.Events {
	return relay.Events{
		Published: func(topic string, n int, age time.Duration) {
			m.published.at(topic).Add(float64(n))
			m.ack.Observe(max(0, age.Seconds()))
		},
		PublishError: func(topic, kind string) { m.errors.at(topic, kind).Inc() },
		Rejected:     func(policy string) { m.rejected.at(policy).Inc() },
		Reconnect:    func(side string) { m.reconnect.at(side).Inc() },
		Ignored:      func(op byte) { m.ignored.at(opName(op)).Inc() },
		Transaction: func(_ int, bytes int64) {
			for {
				largest := m.largest.Load()
				if bytes <= largest || m.largest.CompareAndSwap(largest, bytes) {
					return
				}
			}
		},
		CheckpointWrite: m.writes.Inc,
	}
}

// opName spells out the letters of the protocol's messages.
func opName(op byte) string {
	switch op {
	case 'U':
		return "update"
	case 'D':
		return "delete"
	case 'T':
		return "truncate"
	case 'M':
		return "message"
	}
	return other
}

// family is a counter with one label. Its children are kept, so that the hot path looks up a
// map and does nothing else.
type family struct {
	vec      *prometheus.CounterVec
	label    label
	children sync.Map // string -> prometheus.Counter

	mu    sync.Mutex // adding a child
	known int
}

// newFamily makes the children of a closed label at once, so that each is exported as 0.
func newFamily(d definition) *family {
	f := &family{vec: prometheus.NewCounterVec(prometheus.CounterOpts(d.opts()), []string{d.labels[0].name}), label: d.labels[0]}
	for _, v := range f.label.values {
		f.at(v)
	}
	return f
}

func (f *family) at(v string) prometheus.Counter {
	if c, ok := f.children.Load(v); ok {
		return c.(prometheus.Counter) // only counters are stored
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	bounded := f.label.bound(v, f.known)
	c := f.vec.WithLabelValues(bounded)
	if bounded == v { // a value beyond the bound isn't kept: it would be the leak
		if _, loaded := f.children.LoadOrStore(v, c); !loaded {
			f.known++
		}
	}
	return c
}

// family2 is a counter with two labels, for rare events: it looks each child up anew.
type family2 struct {
	vec    *prometheus.CounterVec
	labels [2]label

	mu   sync.Mutex
	seen [2]map[string]bool
}

func newFamily2(d definition) *family2 {
	return &family2{
		vec:    prometheus.NewCounterVec(prometheus.CounterOpts(d.opts()), []string{d.labels[0].name, d.labels[1].name}),
		labels: [2]label{d.labels[0], d.labels[1]},
		seen:   [2]map[string]bool{{}, {}},
	}
}

func (f *family2) at(a, b string) prometheus.Counter {
	f.mu.Lock()
	defer f.mu.Unlock()
	vs := [2]string{a, b}
	for i, v := range vs {
		if f.seen[i][v] {
			continue
		}
		if vs[i] = f.labels[i].bound(v, len(f.seen[i])); vs[i] == v {
			f.seen[i][v] = true
		}
	}
	return f.vec.WithLabelValues(vs[0], vs[1])
}
