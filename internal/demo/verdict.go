package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Verdict is what the demo found.
type Verdict struct {
	Postgres string `json:"postgres"`
	Broker   string `json:"broker"`

	Events     int `json:"events"` // committed
	Orders     int `json:"orders"`
	RolledBack int `json:"rolled_back"` // events that were written and rolled back
	Records    int `json:"records"`     // in the topic

	Missing    int `json:"missing"`      // events without a record
	Unknown    int `json:"unknown"`      // records without an event, such as one rolled back
	Moved      int `json:"moved"`        // records in another partition than the key's
	OutOfOrder int `json:"out_of_order"` // events of an order after a later one of it
	Changed    int `json:"changed"`      // records that differ from the row, or from the first record of the event
	Repeated   int `json:"repeated"`     // records beyond the first of their event

	Partitions []Partition `json:"partitions"`
	Kills      []Kill      `json:"kills,omitempty"`

	WrittenPerSecond float64  `json:"written_per_second"`
	RelayedPerSecond float64  `json:"relayed_per_second"`
	Latency          *Latency `json:"latency,omitempty"` // of a load test
}

// Partition is what one partition holds.
type Partition struct {
	Partition int32 `json:"partition"`
	Entities  int   `json:"entities"`
	Events    int   `json:"events"`
	Repeats   int   `json:"repeats"`
}

// Kill is how things stood when the relay was killed.
type Kill struct {
	Committed   int `json:"committed"`   // events by then
	InTopic     int `json:"in_topic"`    // of these, seen by a consumer
	Unconfirmed int `json:"unconfirmed"` // of these, not yet covered by what the relay had stored
}

// Latency is from the return of a commit to a consumer.
type Latency struct {
	P50 Milliseconds `json:"p50_ms"`
	P99 Milliseconds `json:"p99_ms"`
	Max Milliseconds `json:"max_ms"`
}

// Milliseconds is a duration that prints as a number of milliseconds.
type Milliseconds time.Duration

func (m Milliseconds) String() string {
	return strconv.FormatFloat(float64(m)/float64(time.Millisecond), 'f', 1, 64)
}

// MarshalJSON implements json.Marshaler.
func (m Milliseconds) MarshalJSON() ([]byte, error) { return []byte(m.String()), nil }

// Clean says that each event is in the topic as it should be, in its order. Repeats are
// allowed: the promise is at least once.
func (v Verdict) Clean() bool {
	return v.Missing+v.Unknown+v.Moved+v.OutOfOrder+v.Changed == 0
}

// NotCleanError is a run that found a broken promise.
type NotCleanError struct{ Verdict Verdict }

func (e *NotCleanError) Error() string {
	return "the topic is not what the outbox says: " + e.Verdict.counts()
}

// ExitCode is that of findings.
func (e *NotCleanError) ExitCode() int { return 3 }

func (v Verdict) counts() string {
	return fmt.Sprintf("%s events, %s missing, %s unknown, %s moved, %s out of order, %s changed, %s repeated",
		count(v.Events), count(v.Missing), count(v.Unknown), count(v.Moved), count(v.OutOfOrder), count(v.Changed), count(v.Repeated))
}

func (v Verdict) print(out io.Writer, asJSON, color bool) error {
	if asJSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(struct {
			Clean bool `json:"clean"`
			Verdict
		}{v.Clean(), v})
	}
	_, err := io.WriteString(out, v.text(color))
	return err
}

// text is the table and the verdict for people.
func (v Verdict) text(color bool) string {
	var b strings.Builder
	b.WriteString("\npartition  entities    events   repeats\n")
	var sum Partition
	for _, p := range v.Partitions {
		fmt.Fprintf(&b, "%9d %9s %9s %9s\n", p.Partition, count(p.Entities), count(p.Events), count(p.Repeats))
		sum.Entities += p.Entities
		sum.Events += p.Events
		sum.Repeats += p.Repeats
	}
	fmt.Fprintf(&b, "%9s %9s %9s %9s\n\n", "all", count(sum.Entities), count(sum.Events), count(sum.Repeats))
	fmt.Fprintf(&b, "%s events of %s orders were committed and %s rolled back, at %s events/s; the topic got them at %s events/s.\n",
		count(v.Events), count(v.Orders), count(v.RolledBack), count(int(v.WrittenPerSecond)), count(int(v.RelayedPerSecond)))
	for _, k := range v.Kills {
		fmt.Fprintf(&b, "The relay was killed with SIGKILL while %s committed events were unconfirmed%s.\n",
			count(k.Unconfirmed), map[bool]string{true: ", which proves nothing"}[k.Unconfirmed == 0])
	}
	if v.Repeated > 0 && v.Changed+v.Moved == 0 {
		fmt.Fprintf(&b, "Each of the %s repeated records has the partition and all the bytes of the first.\n", count(v.Repeated))
	}
	if v.Latency != nil {
		fmt.Fprintf(&b, "From commit to consumer: p50 %s ms, p99 %s ms, max %s ms.\n", v.Latency.P50, v.Latency.P99, v.Latency.Max)
	}
	word, code := "CLEAN", "32"
	if !v.Clean() {
		word, code = "NOT CLEAN", "31"
	}
	if color {
		word = "\x1b[1;" + code + "m" + word + "\x1b[0m"
	}
	fmt.Fprintf(&b, "%s: %s\n", word, v.counts())
	return b.String()
}

// count prints a number with commas.
func count(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
