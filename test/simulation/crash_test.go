package simulation

import (
	"testing"
	"time"
)

// scenario is a fixed world with a little of everything: adjacent commits, a table that is no
// outbox, transactions without rows, an aborted one, a changed table, and a transaction larger than what may be in
// flight.
func scenario(seed uint64) *world {
	w := newWorld(seed, 0, 0)
	row := func(entity int) rowSpec { return rowSpec{entity: entity, size: 20} }
	var giant []rowSpec
	for i := range 9 {
		giant = append(giant, row(i%3))
	}
	w.specs = []spec{
		{rows: []rowSpec{row(0), row(1)}},
		{rows: []rowSpec{row(0)}, adjacent: true},
		{rows: []rowSpec{{audit: true}, row(2), row(0)}, adjacent: true},
		{rows: []rowSpec{row(0)}, aborted: true},
		{rows: []rowSpec{row(0), row(0)}, foreign: true},
		{rows: giant, alter: true},
		{rows: []rowSpec{row(1)}, hidden: true},
		{rows: []rowSpec{row(-1), row(1), {entity: 0, size: 3000}}, adjacent: true},
	}
	w.limits.events, w.limits.bytes = 4, 4000
	w.drain = 20 * time.Second
	w.patient = true
	return w
}

// TestCrashAtEveryOperation has something happen behind the first operation, then behind the
// second, and so on, until a run ends before it could.
func TestCrashAtEveryOperation(t *testing.T) {
	step, orders := 1, 1+uint64(*flagSeeds/2500) // of the operations
	if testing.Short() {
		step = 7
	}
	for _, c := range []struct {
		name, kind string
		lands      bool // what was on its way when the relay crashed
	}{
		{"crash", faultCrash, false},
		{"crash-in-flight", faultCrash, true},
		{"stop", faultStop, true},
		{"postgres-restart", faultRestart, true},
		{"postgres-cut", faultCutPg, true},
		{"kafka-cut", faultCutKafka, true},
		{"broker-restart", faultBroker, true},
		{"other-relay", faultOwner, true},
		{"silence", faultStall, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			struck := 0
			for order := uint64(1); order <= orders; order++ {
				struck += strikeAll(t, order, step, c.kind, c.lands)
			}
			if struck < 50*int(orders)/step {
				t.Errorf("%s struck %d times only", c.kind, struck)
			}
		})
	}
}

// strikeAll plays the scenario again and again, with the fault behind one operation after the other.
func strikeAll(t *testing.T, order uint64, step int, kind string, lands bool) (struck int) {
	t.Helper()
	for at := 1; ; at += step {
		w, err := play(t, order, func(seed uint64) *world {
			w := scenario(seed)
			w.faults.at, w.faults.kind = at, kind
			w.lands = func() bool { return lands }
			return w
		})
		if err != nil {
			t.Fatalf("order %d, %s behind operation %d: %v\n%s", order, kind, at, err, w.trace.tail(60))
		}
		if w.counts[kind]+w.counts[struckNothing] == 0 {
			t.Logf("order %d: struck behind %d of %d operations", order, struck, (at-1)/step)
			return struck
		}
		struck += w.counts[kind]
	}
}
