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
// producer is forgotten; brokers name the old leader for a while behind a move, ask for pauses, and know the producers of what they
// lead only). A START sends what commits at or behind both the position asked for and the
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
// behind a clean stop; what is in flight stays within the limits. Nothing is appended for a relay that was told that another
// owns the slot, but what its sink had before. At the end everything is there.
//
// endings.go holds what a relay says of itself against what the world knows. A stop that leaves something has a reason: the
// drain is over, Postgres answered with errors since the session's START, an event is refused, or a lost session handed
// over what this one hasn't come to again. Its count lies between what is in the log past the stored position and
// what was handed over past it, and the position that it names is one that it was told.
//
// A partition that calls itself stuck is restarted, as the relay asks for. It may call itself so only where its leader
// refused, three times and more, a batch which it has in its log. About one seed in 300 gets there, and nearly always in this way:
// a record or a batch is appended and its ack is lost; then the topic begins to refuse it, as too large or by name, which
// brokers look at before they look for repeats. The lane learns from DescribeProducers, or from the sequence
// error that a piece of the batch meets, that the whole is in the log, and sends it as it was, three times; it is refused each time.
// Nothing but the topic's own settings can end that, and the lane can't know that they will. The next
// life reads the events again. So it is right to stop, and nothing is lost by it. One seed in 10,000 has it with a producer that an
// older broker forgot: a batch in doubt is refused as too large, its pieces meet UNKNOWN_PRODUCER_ID, and nobody can tell any more
// whether the whole is in the log.
//
// # Again
//
//	go test ./test/simulation -run 'TestSeeds$' -seeds 10000          # as CI does
//	go test ./test/simulation -run 'TestSeeds$' -v -seed 42           # one seed, with its trace
//	go test ./test/simulation -run 'TestSeeds$' -first 1 -seeds 500   # the same seeds each time
//
// A trace has a line for each operation: number, time, what, and between stars what went wrong. The same
// seed gives the same trace, with one exception: Go may take the processor from a
// goroutine in the middle of what it does, and then a Produce request may hold the batches of one partition
// more or less. A few seeds in a hundred have such a second trace now and then. The package runs on one processor for that reason
// (TestMain); TestSeeds starts a process for each of them. The sink's pauses are a nanosecond, since they are drawn at
// random; how long something takes is decided by the scheduler instead.
//
// # Left out
//
// relay.Opener, whose Open connects to a real server: source.go reads slot, row and server in its order, as three operations, and makes
// the writes of a first start, so that checkpoint.Decide is real and the steps around it are not (internal/relay tests those
// against real servers);
// wal's own connection (package wal tests it against real servers and a scripted one), the SQL of the store, TLS and
// logins, timelines and failover, several topics, compression, a log that loses what it acknowledged, rows that can't be
// events, two relays that work at once (the other one takes the slot, publishes nothing, and lets it go), requests for a
// producer id that time out, and a broker that can't be connected to: sarama holds a mutex while it connects, which a
// bubble doesn't know as waiting, so connections are made at once and a broker that is away cuts them at the first request.
package simulation
