// Package kafka publishes records to Kafka, each partition in order and without a hole.
//
// It takes connections, security, wire types and compression from sarama and owns the
// order itself: sarama's own producer gives a failed message back and goes on with the
// ones behind it. Here nothing of a partition is sent past a record that is not settled.
//
// Where to read first:
//
//   - lane.go is the state machine of one partition: pure, without I/O, clock or goroutine.
//     Everything that decides about order, repeats and loss is there, and lane_model_test.go
//     explores it exhaustively against a model of a broker.
//   - classify.go says what each error code of a broker means.
//   - sender.go has the one goroutine per broker that puts the batches of many lanes into
//     requests; metadata.go, ids.go and clock.go each one goroutine beside it (ids.go a few).
//   - report.go hands results to the caller, on goroutines of their own.
//
// Locks: a lane's mutex comes before those of a broker's list, the clock, the reports and
// a topic, which are leaves. None is held across a call into sarama.
package kafka
