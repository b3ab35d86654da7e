package simulation

import (
	"math/rand/v2"
	"time"

	"github.com/rs/zerolog"
)

// world is what a seed makes: the surroundings of the relay, which outlive it.
type world struct {
	seed  uint64
	rng   *rand.Rand
	board board
	trace trace
	rules *rules
	log   zerolog.Logger

	pg      *postgres
	cluster *cluster
	life    *life
	lives   int

	limits struct {
		events int
		bytes  int64
	}
	drain  time.Duration
	batch  int
	count0 int // partitions of the topic when it was first published to
	specs  []spec
	// patient: the application begins when the slot is there. What comes before isn't the relay's.
	patient bool

	faults faults
	// lands says whether what a relay had asked for when it crashed still happens.
	lands  func() bool
	steps  int
	counts map[string]int
}

// randomWorld draws a world of a random size, with a random number of faults.
func randomWorld(seed uint64) *world {
	rng := rand.New(rand.NewPCG(seed, 815))
	return newWorld(seed, 5+rng.IntN(20), rng.IntN(40))
}

// newWorld draws a world. faulty is how many faults may strike in it.
func newWorld(seed uint64, txns, faulty int) *world {
	rng := rand.New(rand.NewPCG(seed, 4711))
	w := &world{seed: seed, rng: rng, log: zerolog.Nop(), counts: map[string]int{}}
	w.trace.began = time.Now()
	w.rules = newRules(w)
	w.pg = &postgres{w: w, cur: firstLSN, empty: rng.IntN(4) == 0}
	w.count0 = 1 + rng.IntN(4)
	w.cluster = newCluster(w, 2, w.count0)
	w.cluster.modern = rng.IntN(2) == 0
	w.cluster.named = rng.IntN(2) == 0
	w.limits.events = 2 + rng.IntN(9)
	w.limits.bytes = int64(1500 + rng.IntN(6000))
	w.drain = []time.Duration{5 * time.Second, 20 * time.Second}[rng.IntN(2)]
	w.batch = 1024 << rng.IntN(3)
	w.specs = plan(rng, txns)
	w.patient = rng.IntN(4) > 0
	w.faults = faults{left: faulty}
	w.lands = func() bool { return w.rng.IntN(2) == 0 }
	return w
}

// count counts a fault, or what came of one.
func (w *world) count(what string) { w.counts[what]++ }
