package oracle

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// Kind is a kind of finding.
type Kind string

// The kinds, in the order of a report.
const (
	Missing   Kind = "missing"   // an event is not in the topic
	Unknown   Kind = "unknown"   // a record is no event's
	Moved     Kind = "moved"     // a record is in another partition than it belongs
	Backward  Kind = "backward"  // an event's first record comes after a later event of its key
	Stale     Kind = "stale"     // like backward, by the position header
	Altered   Kind = "altered"   // a record's key, value, headers or timestamp are not the event's
	Differing Kind = "differing" // a repeat is not the same as the first record in every byte
	Ambiguous Kind = "ambiguous" // two expected events share an ID
	// Misnumbered: a position header holds no position, or that of another event, or another
	// commit than other events of the transaction have, or contradicts the order of its key in
	// the table, in whatever partitions the records are.
	Misnumbered Kind = "misnumbered"
	Repeated    Kind = "repeated" // a record of an event that was there before; no fault by itself
)

var kinds = []Kind{Missing, Unknown, Moved, Backward, Stale, Altered, Differing, Ambiguous, Misnumbered, Repeated}

// Finding is one thing that the oracle saw.
type Finding struct {
	Kind      Kind   `json:"kind"`
	ID        string `json:"id"`
	Key       string `json:"key,omitempty"`
	Partition int32  `json:"partition"` // of the record; where it should be when it is missing
	Offset    int64  `json:"offset"`    // -1: no record
	Detail    string `json:"detail"`
}

// PartitionCount is what was found in one partition.
type PartitionCount struct {
	Partition int32 `json:"partition"`
	Keys      int   `json:"keys"`   // whose first record is here
	Events    int   `json:"events"` // first records
	Repeats   int   `json:"repeats"`
}

// Report is the oracle's answer.
type Report struct {
	Expected int `json:"expected"` // events that should be in the topic
	Records  int `json:"records"`  // records that are
	Events   int `json:"events"`   // expected events that are there, once or more often

	Missing     int `json:"missing"`
	Unknown     int `json:"unknown"`
	Moved       int `json:"moved"`
	Backward    int `json:"backward"`
	Stale       int `json:"stale"`
	Altered     int `json:"altered"`
	Differing   int `json:"differing"`
	Ambiguous   int `json:"ambiguous"`
	Misnumbered int `json:"misnumbered"`
	Repeated    int `json:"repeated"`

	// Rewinds is the greatest number of times that the records of one key stepped back.
	// Publishing again from a stored position makes one; more than one per crash says that
	// repeats are out of order among themselves.
	Rewinds int `json:"rewinds"`

	Partitions []PartitionCount `json:"partitions"`
	// Findings are the first ten of each kind.
	Findings []Finding `json:"findings,omitempty"`
}

// Clean says that every event is there, where and as it belongs, in order, and nothing
// else is. Repeats are allowed: a crash makes them.
func (r Report) Clean() bool {
	for _, k := range kinds {
		if k != Repeated && *r.count(k) != 0 {
			return false
		}
	}
	return true
}

// Once says that the report is clean and that nothing is there twice.
func (r Report) Once() bool { return r.Clean() && r.Repeated == 0 }

func (r *Report) count(k Kind) *int {
	switch k {
	case Missing:
		return &r.Missing
	case Unknown:
		return &r.Unknown
	case Moved:
		return &r.Moved
	case Backward:
		return &r.Backward
	case Stale:
		return &r.Stale
	case Altered:
		return &r.Altered
	case Differing:
		return &r.Differing
	case Ambiguous:
		return &r.Ambiguous
	case Misnumbered:
		return &r.Misnumbered
	default:
		return &r.Repeated
	}
}

func (r *Report) add(k Kind, f Finding) {
	n := r.count(k)
	*n++
	if *n <= examples {
		f.Kind = k
		r.Findings = append(r.Findings, f)
	}
}

// String prints the counts per partition, the findings and a verdict.
func (r Report) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "partition\tkeys\tevents\trepeats\t")
	var keys, repeats int
	for _, p := range r.Partitions {
		fmt.Fprintf(w, "%d\t%d\t%d\t%d\t\n", p.Partition, p.Keys, p.Events, p.Repeats)
		keys += p.Keys
		repeats += p.Repeats
	}
	fmt.Fprintf(w, "all\t%d\t%d\t%d\t\n", keys, r.Events, repeats)
	_ = w.Flush() // a strings.Builder takes everything
	for _, k := range kinds {
		r.print(&b, k)
	}
	fmt.Fprintf(&b, "%d expected, %d in the topic as %d records:", r.Expected, r.Events, r.Records)
	for _, k := range kinds {
		fmt.Fprintf(&b, " %d %s,", *r.count(k), k)
	}
	verdict := "clean"
	if !r.Clean() {
		verdict = "NOT CLEAN"
	}
	fmt.Fprintf(&b, " at most %d rewinds of a key: %s\n", r.Rewinds, verdict)
	return b.String()
}

// print lists the findings of one kind. Repeats are expected after a crash and would hide
// the rest, so they are only counted.
func (r *Report) print(b *strings.Builder, k Kind) {
	n := *r.count(k)
	if n == 0 || k == Repeated {
		return
	}
	fmt.Fprintf(b, "%s: %d\n", k, n)
	for _, f := range r.Findings {
		if f.Kind != k {
			continue
		}
		fmt.Fprintf(b, "  %q", f.ID)
		if f.Key != "" {
			fmt.Fprintf(b, " key %q", f.Key)
		}
		fmt.Fprintf(b, " partition %d", f.Partition)
		if f.Offset >= 0 {
			fmt.Fprintf(b, " offset %d", f.Offset)
		}
		fmt.Fprintf(b, ": %s\n", f.Detail)
	}
	if n > examples {
		fmt.Fprintf(b, "  and %d more\n", n-examples)
	}
}
