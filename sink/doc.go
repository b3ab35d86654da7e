// Package sink is the contract between the pump and whatever takes the events: acknowledged,
// or exactly why not.
//
// The one rule behind it: nothing of a partition is sent past a record that is not settled.
// A record is settled when it is durable where it belongs (Acked), or put away durably
// elsewhere (the verdict Settled). Until then it, and all of its partition behind it, waits;
// a sink never gives up a record by itself and never steps over one.
//
// sinktest holds the conformance suite that every sink passes, and a sink for other
// packages' tests.
package sink
