package crash

import (
	"fmt"
	"strings"
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
	s.watch.judge()

	report, got := s.Judge("kept")
	if !report.Clean() {
		t.Errorf("not clean with seed %d", seed)
	}
	wrong, done := s.traffic.deeds.judge(*soakFor)
	for _, err := range wrong {
		t.Error(err)
	}
	v := s.watch.view()
	table, missed := s.table(got)
	if *soakFor >= allKindsFrom && len(missed) > 0 {
		t.Errorf("never struck within %s: %s", *soakFor, strings.Join(missed, ", "))
	}
	text := fmt.Sprintf("seed %d, %s, Postgres %s, Kafka %s\n\n%s\n%d steps, %d idle phases, %d relays, of which none had more than %.1f MiB in memory; %d looks at the positions\ndone: %s\n\n%s",
		seed, time.Since(s.began).Round(time.Second), s.postgres.Version(), s.broker.Version(), table, len(s.steps), s.idles, v.started, float64(v.peak)/(1<<20), v.looks, done, report)
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

// begins is how many new readings of the log a step may begin. With two faults, or in the recovery from
// another, what mostly ends none may, and a new reading may be ended again.
func (st *step) begins() int {
	if !st.calm {
		return 2 * len(st.faults)
	}
	return readingsOf(st.faults[0]) - 1
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
	open, again, read := unconfirmed(crimes, got), repeats(crimes, got), readings(crimes, got)
	if read[0] > 1 {
		s.t.Error("before any fault the records of a key aren't in order")
	}
	before := 0 // readings of steps that all hadn't recovered from
	kinds := map[string]*tally{}
	struck := map[string]bool{}
	rows := append(faults(), fault{name: twoAtOnce}, fault{name: inRecovery})
	for _, f := range rows {
		kinds[f.name] = &tally{}
	}
	for i := range s.steps {
		st := &s.steps[i]
		for _, f := range st.faults {
			struck[f.name] = struck[f.name] || open[i] > 0 && !st.missed
		}
		if most := 1 + before + st.begins(); read[i+1] > most {
			s.t.Errorf("step %d, %s: the records of a key came in %d rising series, want %d at most: repeats are out of order among themselves", i+1, st.what, read[i+1], most)
		}
		if before += st.begins(); st.recovered {
			before = 0
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
