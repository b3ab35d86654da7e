package simulation

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"
)

var (
	flagSeeds = flag.Int("seeds", 500, "how many seeds TestSeeds plays")
	flagSeed  = flag.Uint64("seed", 0, "the one seed that TestSeeds plays, with its trace")
	flagFirst = flag.Uint64("first", 0, "the first of the seeds; 0: by the clock")
)

// workerEnv makes the test a worker of another one: "first step count".
const workerEnv = "SIMULATION_WORKER"

// outcome is what a worker found.
type outcome struct {
	Played int
	Counts map[string]int
	Failed uint64 // a seed, 0: none
	Why    string
	Trace  string
	Again  bool // it failed a second time, in the same way
}

// TestSeeds plays random worlds, on all processors.
func TestSeeds(t *testing.T) {
	switch {
	case *flagSeed != 0:
		w, err := play(t, *flagSeed, randomWorld)
		t.Logf("seed %d\n%s", *flagSeed, w.trace.tail(len(w.trace.lines)))
		if err != nil {
			t.Error(err)
		}
	case os.Getenv(workerEnv) != "":
		worker(t)
	default:
		first := *flagFirst
		if first == 0 {
			first = uint64(time.Now().UnixNano()) % 1e12
		}
		t.Logf("seeds %d to %d", first, first+uint64(*flagSeeds)-1)
		sum := playAll(t, first, *flagSeeds)
		t.Logf("%d seeds\n%s", sum.Played, listing(sum.Counts))
		if sum.Failed != 0 {
			t.Fatalf("seed %d: %s\nthe same when played again: %t\nagain: go test ./test/simulation -run 'TestSeeds$' -v -seed %d\n%s",
				sum.Failed, sum.Why, sum.Again, sum.Failed, sum.Trace)
		}
		if sum.Played >= 300 {
			quiet(t, sum.Counts)
		}
	}
}

// playAll plays n seeds in as many processes as there are processors.
func playAll(t *testing.T, first uint64, n int) (sum outcome) {
	t.Helper()
	workers := min(runtime.NumCPU(), n)
	sum.Counts = map[string]int{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() {
			out := startWorker(t, first+uint64(i), workers, (n-i+workers-1)/workers)
			mu.Lock()
			defer mu.Unlock()
			sum.Played += out.Played
			for k, v := range out.Counts {
				sum.Counts[k] += v
			}
			if out.Failed != 0 && (sum.Failed == 0 || out.Failed < sum.Failed) {
				sum.Failed, sum.Why, sum.Trace, sum.Again = out.Failed, out.Why, out.Trace, out.Again
			}
		})
	}
	all.Wait()
	return sum
}

// startWorker runs this test in a process of its own.
func startWorker(t *testing.T, first uint64, step, n int) (out outcome) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSeeds$", "-test.v")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d %d", workerEnv, first, step, n))
	text, err := cmd.CombinedOutput()
	for line := range strings.Lines(string(text)) {
		if found, ok := strings.CutPrefix(line, "outcome "); ok {
			if err := json.Unmarshal([]byte(found), &out); err != nil {
				t.Errorf("read the outcome of a worker: %v", err)
			}
			return out
		}
	}
	t.Errorf("a worker of the seeds from %d in steps of %d died: %v\n%s", first, step, err, text)
	return out
}

// worker plays its share, up to the first seed that fails. It collects garbage between
// two seeds only: the collector would run goroutines in another order.
func worker(t *testing.T) {
	args := strings.Fields(os.Getenv(workerEnv))
	var n [3]uint64
	for i := range n {
		v, err := strconv.ParseUint(args[i], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		n[i] = v
	}
	out := outcome{Counts: map[string]int{}}
	for i := range n[2] {
		seed := n[0] + i*n[1]
		fmt.Println("seed", seed) // where a panic ends this
		w, err := play(t, seed, randomWorld)
		out.Played++
		for k, v := range w.counts {
			out.Counts[k] += v
		}
		if err != nil {
			out.Failed, out.Why, out.Trace = seed, err.Error(), w.trace.tail(40)
			_, again := play(t, seed, randomWorld)
			out.Again = again != nil && again.Error() == err.Error()
			break
		}
	}
	text, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("outcome %s\n", text)
}

// quiet fails where a kind of fault, or of what follows from one, never struck.
func quiet(t *testing.T, counts map[string]int) {
	t.Helper()
	for _, k := range slices.Concat(worldFaults, opFaults, consequences) {
		if counts[k] == 0 {
			t.Errorf("%q never happened: this simulation is too quiet", k)
		}
	}
}

func listing(counts map[string]int) string {
	var b strings.Builder
	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(tw, "%s\t%d\n", k, counts[k])
	}
	_ = tw.Flush() // a strings.Builder takes everything
	return b.String()
}
