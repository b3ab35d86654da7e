package simulation

import "time"

// What may happen to a single operation in place of success.
const (
	faultCut      = "cut"              // the connection is lost before
	faultCutAfter = "cut after"        // it is lost behind the operation, before the answer
	faultLate     = "cut, lands later" // it is lost before, and what was sent arrives all the same
	faultHalf     = "half an answer"
	faultHang     = "no answer"
	faultFail     = "error"
	faultRefused  = "refused"
	faultGone     = "table is gone"
	faultThrottle = "throttled"
	faultDoubt    = "doubtful answer"
)

// What may happen to the world between two operations.
const (
	faultCrash     = "relay crashes"
	faultStop      = "relay is stopped"
	faultRestart   = "postgres restarts"
	faultDown      = "postgres is away"
	faultOwner     = "another relay takes the slot"
	faultBroker    = "broker restarts"
	faultBrokerOut = "broker is away"
	faultForget    = "producers are forgotten"
	faultLeader    = "leader moves"
	faultStall     = "nothing happens for long"
	faultSmall     = "batches are too large"
	faultPicky     = "some records are refused"
	faultDenied    = "topic is denied"
	faultGrow      = "topic gets partitions"
	faultMute      = "kafka says nothing for long"
	faultCutPg     = "connection to postgres is cut"
	faultCutKafka  = "connections to kafka are cut"
)

// worldFaults are those of the world, each as often as it stands here.
var worldFaults = []string{
	faultCrash, faultCrash, faultStop, faultStop, faultRestart, faultDown, faultOwner, faultBroker, faultBrokerOut,
	faultMute, faultMute, faultForget, faultLeader, faultLeader, faultStall, faultSmall, faultPicky, faultDenied, faultGrow, faultCutPg, faultCutKafka,
}

// opFaults are those of single operations, and consequences what has to come of faults.
var (
	opFaults     = []string{faultCut, faultCutAfter, faultLate, faultHalf, faultHang, faultFail, faultRefused, faultDoubt, faultGone, faultThrottle}
	consequences = []string{
		eventRepeated, rowSentAgain, limitReached, oldMetadata, batchKnown, batchTooLarge, producerUnknown, cleanStop, dirtyStop, recordRefused,
	}
)

// What is counted beside faults.
const (
	operations      = "operations"
	eventRepeated   = "event repeated"
	rowSentAgain    = "row sent again"
	limitReached    = "limit of events reached"
	oldMetadata     = "metadata of an old leader"
	wrongLeader     = "producers asked for at the wrong leader"
	batchKnown      = "repeat of a batch recognised"
	batchTooLarge   = "batch too large"
	producerUnknown = "producer unknown"
	recordRefused   = "record refused"
	cleanStop       = "clean stop"
	dirtyStop       = "stop that left something"
	gotStuck        = "restart after a partition got stuck"
	struckNothing   = "planned fault had nothing to strike"
)

// faults says what may still go wrong.
type faults struct {
	left int // how many
	// at and kind plan one fault: behind the operation of that number.
	at   int
	kind string
}

// inject brings about a fault of the world, and says whether it could.
func (w *world) inject(kind string) bool {
	pg, c := w.pg, w.cluster
	alive := w.life != nil && !w.life.asked
	switch kind {
	case faultCrash, faultStop, faultCutKafka:
		if !alive {
			return false
		}
	case faultRestart, faultDown:
		if pg.down || pg.slot == nil {
			return false
		}
	case faultOwner:
		if w.rules.began == 0 || pg.down || pg.slot.stolen {
			return false
		}
	case faultCutPg:
		if pg.source == nil {
			return false
		}
	case faultForget:
		if c.modern && w.rules.forgotten > 0 {
			return false
		}
	case faultGrow:
		if pg.pinned == nil {
			return false
		}
	}
	w.count(kind)
	w.steps++
	w.trace.line(w.steps, "*** "+kind+" ***", "")
	w.carryOut(kind)
	return true
}

func (w *world) carryOut(kind string) {
	pg, c := w.pg, w.cluster
	switch kind {
	case faultCrash:
		w.life.crash()
	case faultStop:
		w.life.ask()
	case faultRestart:
		pg.crash()
		pg.down = false
		w.rules.confirmed = 0
	case faultDown:
		pg.crash()
		w.rules.confirmed = 0
	case faultOwner:
		pg.row.Owner = [16]byte{0xff}
		pg.slot.stolen = true
		w.lose()
	case faultCutPg:
		w.lose()
	case faultCutKafka:
		w.cutAll(nil)
	case faultBroker, faultBrokerOut:
		n := c.nodes[w.rng.IntN(len(c.nodes))]
		n.down = kind == faultBrokerOut
		w.cutAll(n)
		c.restart()
	case faultForget:
		// It takes a producer that was idle for a day, so nothing of it is on its way any more.
		c.late = nil
		w.board.dropStale()
		c.forget()
		w.rules.forgotten++
	case faultMute:
		c.mute = time.Now().Add(time.Duration(12+w.rng.IntN(30)) * time.Second)
		if w.rng.IntN(2) == 0 {
			pg.detach()
		}
	case faultLeader:
		p := c.parts[w.rng.IntN(len(c.parts))]
		// The brokers learn of it one after the other.
		p.former, p.lagging = p.leader, time.Now().Add(time.Duration(w.rng.IntN(8))*time.Second)
		p.leader = c.nodes[w.rng.IntN(len(c.nodes))]
	case faultStall:
		w.pass([]time.Duration{7 * time.Second, 20 * time.Second, 70 * time.Second}[w.rng.IntN(3)])
	case faultSmall:
		c.limit = 300 + w.rng.IntN(600)
	case faultPicky:
		c.picky = true
	case faultDenied:
		c.denied = true
	case faultGrow:
		c.grow(1 + w.rng.IntN(2))
	}
}

// lose ends the replication connection. The relay may learn of it late.
func (w *world) lose() {
	if s := w.pg.source; s != nil && w.rng.IntN(2) == 0 {
		s.silent = time.Now().Add(time.Duration(1+w.rng.IntN(30)) * time.Second)
	}
	w.pg.detach()
}

// cutAll cuts the connections to a broker, or to all. Which broker gets the small questions is a
// matter of chance (the sink keeps brokers in a map), so that here the seed decides which of those
// connections it is.
func (w *world) cutAll(n *node) {
	if w.life == nil {
		return
	}
	small := w.rng.IntN(2) == 0
	for _, c := range w.life.connections() {
		produces := c.isForProducing()
		if n == nil || produces && c.node == n || !produces && small {
			c.cut(nil)
		}
	}
}

// mend ends everything that lasts.
func (w *world) mend() {
	w.pg.down = false
	w.cluster.heal()
	w.cluster.mute = time.Time{}
	for _, n := range w.cluster.nodes {
		n.down = false
	}
	for _, p := range w.cluster.parts {
		p.lagging = time.Time{}
	}
	if w.pg.slot != nil {
		w.pg.slot.stolen = false
	}
}
