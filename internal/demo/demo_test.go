package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/devenv/envtest"
)

func TestMain(m *testing.M) {
	if fault, ok := os.LookupEnv(fakeEnv); ok {
		if err := fakeRelay(fault); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	envtest.Main(m)
}

// play runs the demo against the fake relay and an embedded broker, in the temporary folder
// of the test, which has to be empty again afterwards.
func playDemo(ctx context.Context, t *testing.T, fault string, o Options) (Verdict, string, error) {
	t.Helper()
	t.Setenv(fakeEnv, fault)
	o.DatabaseURL = envtest.Postgres(t).URL()
	if o.Broker == "" {
		o.Broker = "embedded"
	}
	if o.Events == 0 && o.For == 0 {
		o.Events = 3000
	}
	o.writing = 500 * time.Millisecond
	var out bytes.Buffer
	o.Out = &out
	if o.Exe == "" {
		o.Exe = os.Args[0]
	}
	v, err := Run(ctx, o)
	t.Log(out.String())
	return v, out.String(), err
}

func TestCleanRun(t *testing.T) {
	v, out, err := playDemo(t.Context(), t, "", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !v.Clean() || v.Events != 3000 || v.Records != 3000+v.Repeated || v.Orders == 0 || v.RolledBack == 0 {
		t.Errorf("%+v", v)
	}
	if len(v.Kills) == 0 || v.Kills[len(v.Kills)-1].Unconfirmed == 0 {
		t.Errorf("no kill hit anything: %+v", v.Kills)
	}
	sum := 0
	for _, p := range v.Partitions {
		sum += p.Events
	}
	if sum != v.Events || len(v.Partitions) != partitions {
		t.Errorf("the table's events add up to %d", sum)
	}
	if !strings.Contains(out, "CLEAN: 3,000 events, 0 missing") {
		t.Error("no verdict was printed")
	}
}

// TestFaultsAreFound: for each way in which a relay can break its promise, the demo is not
// clean, and says in which way.
func TestFaultsAreFound(t *testing.T) {
	for fault, found := range map[string]func(Verdict) int{
		"loses":             func(v Verdict) int { return v.Missing },
		"moves":             func(v Verdict) int { return v.Moved },
		"changes":           func(v Verdict) int { return v.Changed },
		"invents":           func(v Verdict) int { return v.Unknown },
		"swaps":             func(v Verdict) int { return v.OutOfOrder },
		"repeats elsewhere": func(v Verdict) int { return v.Moved },
		"repeats otherwise": func(v Verdict) int { return v.Changed },
	} {
		t.Run(fault, func(t *testing.T) {
			v, _, err := playDemo(t.Context(), t, fault, Options{Events: 1000, stall: 5 * time.Second})
			var dirty *NotCleanError
			if !errors.As(err, &dirty) || dirty.ExitCode() != 3 {
				t.Fatalf("the demo returned %v", err)
			}
			if found(v) == 0 || found(dirty.Verdict) == 0 {
				t.Errorf("it is not named: %+v", v)
			}
		})
	}
}

func TestRepeatsAreClean(t *testing.T) {
	v, _, err := playDemo(t.Context(), t, "repeats", Options{Events: 1000})
	if err != nil || v.Repeated == 0 {
		t.Errorf("%v, %d repeated", err, v.Repeated)
	}
}

// TestDeadRelay: a relay that ends by itself ends the demo, with its last words.
func TestDeadRelay(t *testing.T) {
	for _, fault := range []string{"dead", "dies"} {
		t.Run(fault, func(t *testing.T) {
			_, _, err := playDemo(t.Context(), t, fault, Options{})
			if err == nil || !strings.Contains(err.Error(), "last words of a relay") {
				t.Errorf("the demo returned %v", err)
			}
		})
	}
}

func TestLoadTest(t *testing.T) {
	v, out, err := playDemo(t.Context(), t, "", Options{Rate: 200, For: 2 * time.Second, JSON: true})
	if err != nil {
		t.Fatal(err)
	}
	if v.Events != 400 || len(v.Kills) != 0 || v.Repeated != 0 {
		t.Errorf("%+v", v)
	}
	if v.Latency == nil || v.Latency.P50 <= 0 || v.Latency.P50 > v.Latency.P99 || v.Latency.P99 > v.Latency.Max {
		t.Errorf("latency %+v", v.Latency)
	}
	if v.WrittenPerSecond > 230 {
		t.Errorf("%.0f events were written a second, for a rate of 200", v.WrittenPerSecond)
	}
	var printed struct {
		Clean     bool
		Events    int
		LatencyMs struct{ P50 float64 } `json:"latency"`
	}
	object := out[strings.Index(out, "{"):]
	if err := json.Unmarshal([]byte(object), &printed); err != nil || !printed.Clean || printed.Events != 400 {
		t.Errorf("%v: %+v", err, printed)
	}
}

// TestCancelledDemoLeavesNothing: as by Ctrl-C, with servers of its own.
func TestCancelledDemoLeavesNothing(t *testing.T) {
	dir := temporary(t)
	t.Setenv(fakeEnv, "")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	stop := errors.New("stopped by the test")
	_, err := Run(ctx, Options{Broker: "embedded", Exe: os.Args[0], Events: 1 << 30, Out: writerFunc(func(b []byte) (int, error) {
		if bytes.Contains(b, []byte("Killed the relay")) || bytes.Contains(b, []byte("in the topic")) {
			cancel(stop) // in the midst of the traffic
		}
		return len(b), nil
	})})
	if !errors.Is(err, stop) && !errors.Is(err, context.Canceled) {
		t.Errorf("the demo returned %v", err)
	}
	empty(t, dir)
}

// temporary makes a folder of the test's the temporary one. Another user can enter it, to run
// Postgres there.
func temporary(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("TMPDIR", dir)
	return dir
}

func empty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 0 {
		t.Errorf("left in the temporary folder: %v %v", left, err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func TestUsage(t *testing.T) {
	for name, o := range map[string]Options{
		"negative":       {Events: -1},
		"for alone":      {For: time.Second},
		"for and events": {For: time.Second, Rate: 1, Events: 1},
		"unknown broker": {Broker: "rabbit"},
		"two brokers":    {Broker: "embedded", KafkaBrokers: []string{"a:1"}},
	} {
		_, err := Run(t.Context(), o)
		var usage *UsageError
		if !errors.As(err, &usage) || usage.ExitCode() != 2 {
			t.Errorf("%s: %v", name, err)
		}
	}
}
