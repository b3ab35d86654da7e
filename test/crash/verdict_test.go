package crash

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/cdc-relay/cdc-relay/test/lab"
	"github.com/cdc-relay/cdc-relay/test/oracle"
)

// finish stops everything in good order and judges.
func (s *soak) finish(seed uint64) {
	t := s.t
	t.Helper()
	s.traffic.stop()
	s.Settle()
	s.truthful()
	records := s.Records()
	s.calm = true
	s.stop(s.relay)
	s.leftovers(records)
	s.watch.stop()

	report, got := s.Judge("kept")
	if !report.Clean() {
		t.Errorf("not clean with seed %d", seed)
	}
	v := s.watch.view()
	if v.peak > memoryMax {
		t.Errorf("a relay had %d bytes in memory, more than %d", v.peak, memoryMax)
	}
	table, missed := s.table(got)
	if *soakFor >= allKindsFrom && len(missed) > 0 {
		t.Errorf("never struck within %s: %s", *soakFor, strings.Join(missed, ", "))
	}
	text := fmt.Sprintf("seed %d, %s, Postgres %s, Kafka %s\n\n%s\n%d steps, %d idle phases, %d relays, of which none had more than %.1f MiB in memory; %d looks at the positions\n\n%s",
		seed, time.Since(s.began).Round(time.Second), s.postgres.Version(), s.broker.Version(), table, len(s.steps), s.idles, v.started, float64(v.peak)/(1<<20), v.looks, report)
	t.Logf("\n%s", text)
	if t.Failed() {
		s.write("report.txt", text)
	}
}

// leftovers fails when the stop has left something behind, or something came after it.
func (s *soak) leftovers(records int64) {
	s.t.Helper()
	lab.UntilSQL(s.t, s.Lab, "select count(*) from pg_stat_activity where application_name = 'cdc-relay'", "0")
	if v := s.One("select active from pg_replication_slots where slot_name = $1", s.Slot); v != "false" {
		s.t.Errorf("the slot is still active: %q", v)
	}
	if v := s.One("select count(*) from pg_replication_slots"); v != "1" {
		s.t.Errorf("%s slots are there, want the relay's alone", v)
	}
	if confirmed, stored := s.Confirmed(), s.Stored(); confirmed != stored {
		s.t.Errorf("after a clean stop the slot has confirmed %s and the row says %s", confirmed, stored)
	}
	if n := s.Records(); n != records {
		s.t.Errorf("%d records came when all was published", n-records)
	}
}

// tally is what became of a kind of fault.
type tally struct {
	times, struck, repeats, timed int
	sum, most                     time.Duration
}

func (a *tally) add(st *step, unconfirmed, repeats int) {
	a.times++
	if unconfirmed > 0 {
		a.struck++
	}
	a.repeats += repeats
	if st.recovered {
		a.timed++
		a.sum += st.first
		a.most = max(a.most, st.first)
	}
}

// The rows of the table that are no kind of fault.
const (
	twoAtOnce  = "two of them at once"
	inRecovery = "one in the recovery from another"
)

// table prints the faults by kind, and returns those that never struck when events were unconfirmed.
// Where nothing may repeat events, it fails for each that did.
func (s *soak) table(got []oracle.Record) (text string, missed []string) {
	crimes := make([]crime, len(s.steps))
	for i := range s.steps {
		crimes[i] = s.steps[i].crime
	}
	open, again := unconfirmed(s.t, crimes, got), repeats(crimes, got)
	kinds := map[string]*tally{}
	struck := map[string]bool{}
	rows := append(faults(), fault{name: twoAtOnce}, fault{name: inRecovery})
	for _, f := range rows {
		kinds[f.name] = &tally{}
	}
	for i := range s.steps {
		st := &s.steps[i]
		for _, f := range st.faults {
			struck[f.name] = struck[f.name] || open[i] > 0
		}
		f := st.faults[0]
		switch {
		case len(st.faults) > 1:
			kinds[twoAtOnce].add(st, open[i], again[i])
		case !st.calm: // what repeats may do so because of the one before
			kinds[inRecovery].add(st, open[i], again[i])
		default:
			kinds[f.name].add(st, open[i], again[i])
		}
		if len(st.faults) == 1 && f.once && st.calm && st.recovered && again[i] > 0 {
			s.t.Errorf("step %d, %s, repeated %d events, want none", i+1, f.name, again[i])
		}
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "alone, when all was well\ttimes\tin traffic\trepeats\tmean to the first record\tmost")
	for _, f := range rows {
		k := kinds[f.name]
		mean := time.Duration(0)
		if k.timed > 0 {
			mean = k.sum / time.Duration(k.timed)
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%s\t%s\n", f.name, k.times, k.struck, k.repeats, mean.Round(time.Millisecond), k.most.Round(time.Millisecond))
		if f.begin != nil && !struck[f.name] {
			missed = append(missed, f.name)
		}
	}
	_ = w.Flush() // a strings.Builder takes everything
	return b.String(), missed
}

// keeper is the folder for what is needed to understand a failure.
type keeper struct {
	t   *testing.T
	dir string
}

func newKeeper(t *testing.T) keeper {
	t.Helper()
	dir, err := os.MkdirTemp("", "cdc-relay-soak-")
	if err != nil {
		t.Fatal(err)
	}
	// Registered first, so it runs when all else has ended.
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the logs of relays and servers and the oracle's report are kept in %s", dir)
		} else if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return keeper{t, dir}
}

// serverTail is how much of a server's log is kept.
const serverTail = 1 << 20

// keep copies the servers' logs when the test has failed, before the servers are removed.
func (k keeper) keep(s *soak, seed uint64) {
	k.t.Cleanup(func() {
		if !k.t.Failed() {
			return
		}
		var lines strings.Builder
		fmt.Fprintf(&lines, "seed %d, -soak %s, -soak.rate %g\n", seed, *soakFor, *soakRate)
		for i := range s.steps {
			st := &s.steps[i]
			fmt.Fprintf(&lines, "%4d  %-60s  held %-8s  calm %-5v  recovered %-5v  first %s\n",
				i+1, st.what, st.held.Round(time.Millisecond), st.calm, st.recovered, st.first.Round(time.Millisecond))
		}
		s.write("steps.txt", lines.String())
		for name, path := range map[string]string{
			"postgres.log": filepath.Join(s.postgres.Dir(), "postgres.log"),
			"kafka.log":    filepath.Join(s.broker.Dir(), "kafka.log"),
		} {
			text, err := tail(path, serverTail)
			if err != nil {
				k.t.Errorf("keep the server's log: %v", err)
				continue
			}
			s.write(name, text)
		}
	})
}

// write keeps a text in the folder of the logs.
func (s *soak) write(name, text string) {
	if err := os.WriteFile(filepath.Join(s.Logs, name), []byte(text), 0o644); err != nil {
		s.t.Errorf("keep %s: %v", name, err)
	}
}

func tail(path string, most int64) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	end, err := f.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = f.Seek(max(0, end-most), io.SeekStart)
	}
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(f)
	return string(b), err
}
