package admin

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/relay"
)

// Every definition is whole, and every label has a bound.
func TestDefinitions(t *testing.T) {
	seen := map[string]bool{}
	for _, d := range definitions {
		if !regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`).MatchString(d.name) || seen[d.name] {
			t.Errorf("%q is no name, or is there twice", d.name)
		}
		seen[d.name] = true
		if len(d.help) < 10 || !strings.HasSuffix(d.help, ".") {
			t.Errorf("%s: help %q is no sentence", d.name, d.help)
		}
		if (d.kind == counter) != strings.HasSuffix(d.name, "_total") {
			t.Errorf("%s: counters, and only counters, end in _total", d.name)
		}
		for _, l := range d.labels {
			if (len(l.values) > 0) == (l.most > 0) || l.most > 100 {
				t.Errorf("%s: label %s has no bound, or two", d.name, l.name)
			}
		}
	}
}

// What is exported is what is defined, with the same help, and nothing else of ours.
func TestExportedIsDefined(t *testing.T) {
	m := newMetrics(func() relay.Status { return relay.Status{} }, time.Now)
	e := m.events()
	e.Published("t", 1, time.Second)
	e.PublishError("t", "k")
	help := map[string]string{}
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if name, ok := strings.CutPrefix(f.GetName(), namespace+"_"); ok {
			help[name] = f.GetHelp()
		}
	}
	for _, d := range definitions {
		if help[d.name] != d.help {
			t.Errorf("%s: exported with help %q, want %q", d.name, help[d.name], d.help)
		}
		delete(help, d.name)
	}
	for name := range help {
		t.Errorf("%s is exported and not defined", name)
	}
	for _, want := range []string{"go_goroutines", "process_start_time_seconds"} {
		if !slices.ContainsFunc(families, func(f *exported) bool { return f.GetName() == want }) {
			t.Errorf("%s is missing", want)
		}
	}
}

func TestEventsAreCounted(t *testing.T) {
	m := newMetrics(func() relay.Status { return relay.Status{} }, time.Now)
	e := m.events()
	e.Published("orders", 3, 40*time.Millisecond)
	e.Published("orders", 4, -time.Second) // Postgres's clock is ahead
	e.Published("other-topic", 1, time.Hour)
	e.PublishError("orders", "unknown_topic")
	e.Rejected("halt")
	e.Rejected("halt")
	e.Rejected("invented")
	for _, side := range []string{"postgres", "sql", "sql", "kafka"} {
		e.Reconnect(side)
	}
	for _, op := range []byte("UUDTM?") {
		e.Ignored(op)
	}
	e.Transaction(2, 100)
	e.Transaction(9, 700)
	e.Transaction(1, 50)
	e.CheckpointWrite()
	got := scrape(t, m.registry)
	for line, want := range map[string]string{
		`events_published_total{topic="orders"}`:                    "7",
		`events_published_total{topic="other-topic"}`:               "1",
		`publish_errors_total{kind="unknown_topic",topic="orders"}`: "1",
		`rejected_total{policy="halt"}`:                             "2",
		`rejected_total{policy="park"}`:                             "0",
		`rejected_total{policy="other"}`:                            "1",
		`reconnects_total{side="postgres"}`:                         "1",
		`reconnects_total{side="sql"}`:                              "2",
		`reconnects_total{side="kafka"}`:                            "1",
		`ignored_total{op="update"}`:                                "2",
		`ignored_total{op="delete"}`:                                "1",
		`ignored_total{op="truncate"}`:                              "1",
		`ignored_total{op="message"}`:                               "1",
		`ignored_total{op="other"}`:                                 "1",
		`largest_transaction_bytes`:                                 "700",
		`checkpoint_writes_total`:                                   "1",
		`commit_to_ack_seconds_count`:                               "3",
		`commit_to_ack_seconds_sum`:                                 "3600.04",
		`commit_to_ack_seconds_bucket{le="0.05"}`:                   "2",
		`commit_to_ack_seconds_bucket{le="0.02"}`:                   "1",
	} {
		if got[line] != want {
			t.Errorf("%s = %s, want %s", line, got[line], want)
		}
	}
}

// Whatever the topics and kinds are called, the number of time series stays bounded, and no
// count is lost.
func TestLabelsAreBounded(t *testing.T) {
	m := newMetrics(func() relay.Status { return relay.Status{} }, time.Now)
	e := m.events()
	const n = 5 * topicsMax
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range n {
				e.Published(fmt.Sprintf("topic-%d-%d", g, i), 1, 0)
				e.PublishError(fmt.Sprintf("topic-%d-%d", g, i), fmt.Sprintf("kind-%d", i))
				e.Rejected(fmt.Sprint(i))
				e.Reconnect(fmt.Sprint(i))
			}
		})
	}
	wg.Wait()
	series, sum := map[string]int{}, map[string]float64{}
	for line, v := range scrape(t, m.registry) {
		name, _, _ := strings.Cut(line, "{")
		var f float64
		if _, err := fmt.Sscan(v, &f); err != nil {
			t.Fatal(err)
		}
		series[name]++
		sum[name] += f
	}
	for name, most := range map[string]int{
		"events_published_total": topicsMax + 1, "publish_errors_total": 101 * 51, "rejected_total": 4, "reconnects_total": 4,
	} {
		if series[name] > most || series[name] == 0 {
			t.Errorf("%s has %d series, want at most %d", name, series[name], most)
		}
		if sum[name] != 4*n {
			t.Errorf("%s counts %v, want %d", name, sum[name], 4*n)
		}
	}
	kept := 0
	m.published.children.Range(func(any, any) bool { kept++; return true })
	if kept > topicsMax {
		t.Errorf("%d topics are kept in memory, want at most %d", kept, topicsMax)
	}
}

func TestStatusIsExported(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	asked := 0
	st := relay.Status{
		Phase: relay.PhaseStreaming, Stored: 0x100, Confirmed: 0x180, Received: 0x300,
		InflightEvents: 7, InflightBytes: 900, OldestUnconfirmed: now.Add(-1500 * time.Millisecond),
		LastProgress: now.Add(-time.Second),
	}
	m := newMetrics(func() relay.Status { asked++; return st }, func() time.Time { return now })
	check := func(want map[string]string) {
		t.Helper()
		asked = 0
		got := scrape(t, m.registry)
		if asked != 1 {
			t.Errorf("one scrape asked %d times: its gauges don't belong together", asked)
		}
		for name, w := range want {
			if got[name] != w {
				t.Errorf("%s = %s, want %s", name, got[name], w)
			}
		}
	}
	check(map[string]string{
		"confirmed_lag_bytes": "512", "inflight_events": "7", "inflight_bytes": "900", "leader": "1",
		"oldest_unconfirmed_age_seconds": "1.5", "last_progress_timestamp_seconds": "1.699999999e+09",
	})
	st = relay.Status{Phase: relay.PhaseStandby, Stored: 0x300, Received: 0x100, OldestUnconfirmed: now.Add(time.Hour)}
	check(map[string]string{
		"confirmed_lag_bytes": "0", "leader": "0", "oldest_unconfirmed_age_seconds": "0", "last_progress_timestamp_seconds": "0",
	})
}

func TestLeader(t *testing.T) {
	for phase, want := range map[relay.Phase]float64{
		relay.PhaseStarting: 0, relay.PhaseWaiting: 0, relay.PhaseStandby: 0,
		relay.PhaseStreaming: 1, relay.PhaseHalted: 1, relay.PhaseStopping: 1,
	} {
		if got := leads(phase); got != want {
			t.Errorf("%s: leader = %v, want %v", phase, got, want)
		}
	}
}

// The callbacks run per batch on the way of the events: they don't allocate.
func TestCallbacksDontAllocate(t *testing.T) {
	e := newMetrics(func() relay.Status { return relay.Status{} }, time.Now).events()
	topic := strings.Clone("orders")
	if n := testing.AllocsPerRun(1000, func() {
		e.Published(topic, 10, time.Millisecond)
		e.Transaction(10, 1000)
		e.Ignored('U')
		e.CheckpointWrite()
		e.Rejected("halt")
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkPublished(b *testing.B) {
	e := newMetrics(func() relay.Status { return relay.Status{} }, time.Now).events()
	b.ReportAllocs()
	for b.Loop() {
		e.Published("orders", 10, time.Millisecond)
	}
}

// scrape reads all metrics of ours: name and labels without the prefix -> value.
func scrape(t *testing.T, g prometheus.Gatherer) map[string]string {
	t.Helper()
	out := map[string]string{}
	for line := range strings.Lines(exposition(t, g)) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), namespace+"_"); ok {
			i := strings.LastIndexByte(rest, ' ')
			out[rest[:i]] = rest[i+1:]
		}
	}
	return out
}
