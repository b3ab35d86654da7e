package admin

import "slices"

// namespace begins the name of every metric of ours.
const namespace = "cdc_relay"

// definition is one metric: the whole truth about its name and labels, for the code, the tests
// and the documentation.
type definition struct {
	name   string
	help   string
	kind   kind
	labels []label
}

type kind uint8

const (
	counter kind = iota
	gauge
	histogram
)

// label is a label with its bound: either its only values, or how many it may have. One value
// more is counted under other.
type label struct {
	name   string
	values []string
	most   int
}

// other stands for all values beyond a label's bound.
const other = "other"

// topicsMax bounds the label topic. A relay for one outbox writes to a handful.
const topicsMax = 100

var topicLabel = label{name: "topic", most: topicsMax}

// The metrics, in the order of their rows.
const (
	eventsPublished = iota
	commitToAck
	oldestUnconfirmedAge
	confirmedLag
	inflightEvents
	inflightBytes
	publishErrors
	rejected
	reconnects
	ignored
	checkpointWrites
	largestTransaction
	leader
	lastProgress
	definitionCount
)

var definitions = [definitionCount]definition{
	eventsPublished: {
		name: "events_published_total", kind: counter, labels: []label{topicLabel},
		help: "Events that were acknowledged since the start.",
	},
	commitToAck: {
		name: "commit_to_ack_seconds", kind: histogram,
		help: "From the commit of the oldest event of an acknowledged batch to the acknowledgement; one observation per batch. It compares two clocks, Postgres's and ours.",
	},
	oldestUnconfirmedAge: {
		name: "oldest_unconfirmed_age_seconds", kind: gauge,
		help: "Since the commit of the oldest transaction that isn't wholly acknowledged; 0 when there is none. The one to alert on.",
	},
	confirmedLag: {
		name: "confirmed_lag_bytes", kind: gauge,
		help: "WAL between the position that Postgres was told and the greatest one that it has named.",
	},
	inflightEvents: {
		name: "inflight_events", kind: gauge,
		help: "Events that were read and aren't acknowledged.",
	},
	inflightBytes: {
		name: "inflight_bytes", kind: gauge,
		help: "Bytes of the events that were read and aren't acknowledged; bounded by kafka.buffer_bytes.",
	},
	publishErrors: {
		name: "publish_errors_total", kind: counter, labels: []label{topicLabel, {name: "kind", most: 50}},
		help: "Times that a topic as a whole couldn't be published to.",
	},
	rejected: {
		name: "rejected_total", kind: counter, labels: []label{{name: "policy", values: []string{"halt", "park", "dead-letter"}}},
		help: "Events that can't be published as they are, by what was done with them. A repeated attempt counts again.",
	},
	reconnects: {
		name: "reconnects_total", kind: counter, labels: []label{{name: "side", values: []string{"postgres", "sql", "kafka"}}},
		help: "Connections that were lost and tried again.",
	},
	ignored: {
		name: "ignored_total", kind: counter, labels: []label{{name: "op", values: []string{"update", "delete", "truncate", "message"}}},
		help: "What came through the publication and is no event: updates, deletes, truncates, and messages of ours outside a transaction.",
	},
	checkpointWrites: {
		name: "checkpoint_writes_total", kind: counter,
		help: "Writes of the stored position.",
	},
	largestTransaction: {
		name: "largest_transaction_bytes", kind: gauge,
		help: "Bytes of the events of the largest transaction since the start.",
	},
	leader: {
		name: "leader", kind: gauge,
		help: "1 while this relay holds the slot, 0 while it waits for it.",
	},
	lastProgress: {
		name: "last_progress_timestamp_seconds", kind: gauge,
		help: "When the confirmed position last moved, or was last found complete, in seconds since 1970; 0 before the first time.",
	},
}

// ackBuckets reach from half a millisecond, which a local broker can do, to the outage that
// somebody should have been called for.
var ackBuckets = []float64{0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300}

// bound returns the value to count under.
func (l label) bound(v string, known int) string {
	switch {
	case l.values != nil && !slices.Contains(l.values, v), l.values == nil && known >= l.most:
		return other
	}
	return v
}
