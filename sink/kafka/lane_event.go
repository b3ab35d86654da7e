package kafka

import (
	"math"

	"github.com/cdc-relay/cdc-relay/sink"
)

// laneState is what a lane waits for.
type laneState uint8

const (
	idle       laneState = iota // a record
	noID                        // a producer id
	ready                       // its turn in a request
	inFlight                    // the answer to cur
	backingOff                  // the timer
	probing                     // what the broker knows of the producer
	asking                      // the verdict on cur, which is one record
	halted                      // nothing: only a restart goes on
)

const (
	maxPops      = 3 // times a whole is sent again for one record before the lane halts
	maxBumps     = 3 // new epochs or ids without an ack in between before the lane halts
	maxMisses    = 6 // answers that the topic is missing before the topic stops
	maxCuts      = 3 // connections closed on one batch, alone in its request, before it is halved
	soloAfter    = 2 // connections closed before a batch gets a request of its own
	maxEpoch     = math.MaxInt16 - 1
	minBatchCap  = 1 << 10 // a learned limit goes no lower
	growAfter    = 64      // acks in a row before a learned limit is doubled
	cutSuspected = 1 << 20 // a single record below this size is never suspected for a closed connection
)

type eventKind uint8

const (
	evAppend  eventKind = iota // record, size, flaw
	evTake                     // limit: the bytes that the request has left
	evAnswer                   // class, code, offset, bad, reason, cut, alone
	evTimer                    // the delay of the last actBackoff is over
	evID                       // id, epoch
	evProbed                   // known, epoch, lastSeq
	evVerdict                  // verdict, failed
	evHalt                     // the topic is another one than before, or another lane of it halted
	evClose                    // nothing more is sent
)

// event is something that happened to a lane.
type event struct {
	kind eventKind

	record *sink.Record
	size   int32
	flaw   flaw

	limit int

	class  class
	code   int16
	offset int64 // of the first record; -1 where the broker doesn't say
	bad    []int32
	reason string
	cut    bool // the connection was closed by a broker that answers otherwise
	alone  bool // nothing else was in the request

	id      int64
	epoch   int16
	known   bool
	lastSeq int32 // -1: the broker knows nothing of the producer

	verdict sink.Verdict
	failed  bool
}

type actionKind uint8

const (
	actReady   actionKind = iota // put the lane into its leader's list
	actSend                      // batch, in this request
	actNeedID                    // get a producer id
	actBackoff                   // attempt, slow, refresh: call evTimer later
	actReport                    // batch is acknowledged, at offset; its memory goes along
	actProbe                     // ask the leader what it knows of (id, partition)
	actAsk                       // batch's one record, code, reason, doubt: ask for the verdict
	actSettled                   // batch's one record is settled by a verdict
	actStop                      // code, reason: the topic can't be published to
	actHeal                      // the topic can be published to again
	actHalt                      // halt, code, offset
)

// action is what a lane wants done.
type action struct {
	kind    actionKind
	batch   *batch
	attempt int
	slow    bool
	refresh bool
	doubt   bool
	code    int16
	reason  string
	halt    haltKind
	offset  int64 // where the log ends, or of the first record acknowledged; -1: nobody says
}

// haltKind says why a lane halted.
type haltKind uint8

const (
	haltRegressed haltKind = iota // the log lost what was acknowledged
	haltPops                      // a refused batch may be in the log, and asking again settles nothing
	haltBumps                     // the broker refuses one new producer state after the other
)
