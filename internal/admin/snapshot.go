package admin

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/relay"
)

// snapshot exports the relay's status. It asks once per scrape, so that the gauges of a scrape
// belong together.
type snapshot struct {
	status  func() relay.Status
	now     func() time.Time
	largest *atomic.Int64
}

// Describe lists the gauges.
func (s *snapshot) Describe(ch chan<- *prometheus.Desc) {
	for i := range definitions {
		if definitions[i].kind == gauge {
			ch <- definitions[i].desc()
		}
	}
}

// Collect reads the status.
func (s *snapshot) Collect(ch chan<- prometheus.Metric) {
	st := s.status()
	values := map[int]float64{
		oldestUnconfirmedAge: age(st.OldestUnconfirmed, s.now()),
		confirmedLag:         lag(st),
		inflightEvents:       float64(st.InflightEvents),
		inflightBytes:        float64(st.InflightBytes),
		largestTransaction:   float64(s.largest.Load()),
		leader:               leads(st.Phase),
		lastProgress:         seconds(st.LastProgress),
	}
	for i, v := range values {
		ch <- prometheus.MustNewConstMetric(definitions[i].desc(), prometheus.GaugeValue, v)
	}
}

// age is never negative: the commit time is Postgres's clock.
func age(since, now time.Time) float64 {
	if since.IsZero() {
		return 0
	}
	return max(0, now.Sub(since).Seconds())
}

func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}

// lag is 0 while a new connection has named less than was confirmed before.
func lag(st relay.Status) float64 {
	if st.Received <= st.Stored {
		return 0
	}
	return float64(st.Received - st.Stored)
}

func leads(p relay.Phase) float64 {
	switch p {
	case relay.PhaseStreaming, relay.PhaseHalted, relay.PhaseStopping:
		return 1
	}
	return 0
}
