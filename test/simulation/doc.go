// Package simulation plays the whole relay against scripted surroundings, in an order that a seed
// decides, and looks after every operation whether its promises hold.
//
// # What is real, and what is played
//
// Real: internal/relay with sessions, pump, gate and saver; decode, decode/shape, shard; the tracker
// and checkpoint.Decide; relay.Pinner; sink/kafka with its lanes and senders, and the Kafka library below.
//
// Played, in this package: Postgres (a WAL of transactions that are sent as pgoutput frames
// written by hand, a slot that forgets at a restart, the row of the stored position, catalog and
// contracts) and Kafka (brokers that speak its protocol over connections in memory, with
// idempotence as Apache Kafka has it: five batches remembered, one behind a restart, none when a
// producer is forgotten). A START sends what commits at or behind both the position asked for and the
// confirmed one.
//
// # How time and order are decided
//
// Each run is a bubble of testing/synctest, where time passes only when everything waits. Whatever
// crosses the border between the relay and the world is an operation (op): a batch of frames sent, a status
// on its way, a statement and its answer, a record handed to the sink, a request that a broker takes, its
// answer, an ack on its way to the tracker. An op registers itself and waits. When nothing moves any
// more, the scheduler draws one from the seed and does it, or lets time pass, or breaks something: one
// operation (a cut before or behind it, an answer that is half or never comes, an error) or the
// world (a crash of the relay, a restart of Postgres or of a broker, another relay that takes the slot; see
// faults.go). A crash leaves the world as it is; what the relay had asked for may still happen, later.
//
// # The rules
//
// rules.go holds after every operation, with arithmetic of its own: an event is in the log before the stored position
// passes it; the stored position is the end of a transaction or a position that the server named between two; the slot
// is never confirmed past it; both move right only; first occurrences of a key are in the order of their commits; each
// record is on the partition of its key under the first contract, with its bytes, headers and time; nothing is in
// the log more often than it was read and handed over, but where a broker forgot its producers; nothing comes again
// behind a clean stop; what is in flight stays within the limits. At the end everything is there.
//
// # Again
//
//	go test ./test/simulation -run 'TestSeeds$' -seeds 10000          # as CI does
//	go test ./test/simulation -run 'TestSeeds$' -v -seed 42           # one seed, with its trace
//	go test ./test/simulation -run 'TestSeeds$' -first 1 -seeds 500   # the same seeds each time
//
// A trace has a line for each operation: number, time, what, and between stars what went wrong. The same
// seed gives the same trace, with one exception: on a busy machine Go may take the processor from a
// goroutine in the middle of what it does, and then a Produce request may hold the batches of one partition
// more or less. That struck two runs in a thousand on a machine that had ten times more to do than processors. The package runs on one processor for that reason
// (TestMain); TestSeeds starts a process for each of them. The sink's pauses are a nanosecond, since they are drawn at
// random; how long something takes is decided by the scheduler instead.
//
// # Left out
//
// wal's own connection (package wal tests it against real servers and a scripted one), the SQL of the store, TLS and
// logins, timelines and failover, several topics, compression, a log that loses what it acknowledged, rows that can't be
// events, two relays that work at once (the other one takes the slot, publishes nothing, and lets it go), requests for a
// producer id that time out, and a broker that can't be connected to: sarama holds a mutex while it connects, which a
// bubble doesn't know as waiting, so connections are made at once and a broker that is away cuts them at the first request.
package simulation
