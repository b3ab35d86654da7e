// Package kafka publishes records to Kafka, each partition in order and without a hole.
//
// It takes connections, security, wire types and compression from sarama and owns the
// order itself: sarama's own producer gives a failed message back and goes on with the
// ones behind it. Here nothing of a partition is sent past a record that is not settled.
//
// Where to read first:
//
//   - lane.go, with lane_event.go and lane_reject.go, is the state machine of one partition:
//     pure, without I/O, clock or goroutine. Everything that decides about order, repeats and
//     loss is there. testdata/lane.txt tells its stories one by one, and
//     lane_exhaustive_test.go explores it against a model of a broker.
//   - classify.go says what each error code of a broker means.
//   - partition.go connects a lane with the goroutines around it: one per broker puts the
//     batches of many lanes into requests (sender.go), one keeps the routes (metadata.go),
//     a few get producer ids (ids.go), one waits (clock.go), and one hands results to the
//     caller (report.go). Verdicts are asked for on goroutines of their own.
//
// Locks: a partition's mutex comes first; those of the sink, a topic, a broker, the clock
// and the reports are taken inside of it, and nothing but leaves inside of those. No mutex
// is held across a call into sarama, whose callbacks take them.
//
// Not obvious:
//
//   - One batch of a partition is in flight, since a restarted broker remembers one.
//   - A sink has a producer id per partition: a shared one couldn't start a new epoch for
//     one of them alone.
//   - The connections are sarama's, on sockets that close themselves at the first error
//     (conn.go): sarama goes on with a connection that it shouldn't trust any more, and
//     holds a lock while it waits, so that its own Close waits too.
package kafka
