package admin

import (
	"time"

	"github.com/cdc-relay/cdc-relay/internal/relay"
)

// status is the answer of /readyz in JSON. Its names are an interface: they stay.
type status struct {
	Ready                       bool       `json:"ready"`
	Phase                       string     `json:"phase"`
	Reason                      string     `json:"reason,omitempty"`
	Slot                        string     `json:"slot"`
	Publication                 string     `json:"publication"`
	ConfirmedLSN                string     `json:"confirmed_lsn"`
	StoredLSN                   string     `json:"stored_lsn"`
	ReceivedLSN                 string     `json:"received_lsn"`
	LagBytes                    uint64     `json:"lag_bytes"`
	InflightEvents              int        `json:"inflight_events"`
	InflightBytes               int64      `json:"inflight_bytes"`
	OldestUnconfirmedAgeSeconds float64    `json:"oldest_unconfirmed_age_seconds"`
	LastProgress                *time.Time `json:"last_progress,omitempty"`
	EventsPublished             uint64     `json:"events_published"`
}

func newStatus(st relay.Status, now time.Time) status {
	s := status{
		Ready: st.Ready, Phase: string(st.Phase), Reason: st.Reason,
		Slot: st.Slot, Publication: st.Publication,
		ConfirmedLSN: st.Confirmed.String(), StoredLSN: st.Stored.String(), ReceivedLSN: st.Received.String(),
		LagBytes:       uint64(lag(st)),
		InflightEvents: st.InflightEvents, InflightBytes: st.InflightBytes,
		OldestUnconfirmedAgeSeconds: age(st.OldestUnconfirmed, now),
		EventsPublished:             st.Published,
	}
	if !st.LastProgress.IsZero() {
		s.LastProgress = &st.LastProgress
	}
	return s
}
