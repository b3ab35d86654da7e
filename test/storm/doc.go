// Package storm sends a million events through the Kafka sink while the network and the
// brokers misbehave, and lets the oracle say what is in the topic: nothing missing, nothing
// out of order, nothing twice.
//
//	go test ./test/storm                  the whole storm
//	go test -short ./test/storm           a small one
//	STORM_SEED=7 STORM_EVENTS=200000 go test -v -run 'TestStorm$' ./test/storm
//
// A run prints its seed, how often each kind of fault struck, and the oracle's report. The
// seed decides kinds, order and targets of the faults; when they meet which request is up to
// the scheduler, so a seed makes a failure likely again, not certain.
//
// The broker is franz-go's kfake: three brokers in this process. The wire between (wire.go)
// sees whole requests and answers and cuts, halves, holds and delays them; the weather
// (weather.go) chooses, and moves leaders, takes brokers away and has kfake answer with error
// codes.
//
// # Where kfake is not Apache Kafka
//
// Read in kfake's source at the version that go.mod names, and compared with Kafka 4.3.1:
//
//   - What a restart forgets. A Kafka broker that restarts remembers of each producer only the
//     newest batch; kfake keeps five, since its "restart" (RemoveNode, AddNode) loses nothing.
//     A sink with two batches of a partition in flight passes on kfake and repeats or stops on
//     Kafka. The rules (rules.go) therefore check on the wire that no batch is sent before the
//     one ahead of it was answered.
//   - Epochs. Kafka keeps a producer's epoch per partition, kfake one per producer id. With one
//     id per partition both are the same, and the rules check that ids are not shared.
//   - The end of sequences. Kafka wraps from 2^31-1 to 0, kfake one earlier (it counts modulo
//     2^31-1). No storm comes near it.
//   - Replication. kfake has none: no follower lags, no election loses records, and
//     NOT_ENOUGH_REPLICAS never comes by itself; here it is told to answer so. It appends when
//     it answers REQUEST_TIMED_OUT or NOT_ENOUGH_REPLICAS_AFTER_APPEND and at no other code,
//     though Kafka may have appended before UNKNOWN_SERVER_ERROR or NETWORK_EXCEPTION too.
//   - Metadata is true at once. On Kafka, brokers disagree about leaders for a while; here only
//     the code NOT_LEADER_FOR_PARTITION without a move is like that.
//   - Records. Kafka looks into a batch and refuses, for example, a null header key; kfake takes
//     it. What a record may hold is proven on a real broker, in the sinks' conformance suite.
//   - Time. Kafka checks timestamps against its clock, kfake doesn't, so the storm's only
//     refused records are too large ones.
//   - One broker's requests are worked on one at a time, all brokers' by one goroutine, in
//     memory: nothing is slow unless the wire makes it so.
//
// So the storm proves the sink against lost, late and wrong answers. What a real broker
// forgets in a crash is proven on a real one, in the crash tests.
package storm
