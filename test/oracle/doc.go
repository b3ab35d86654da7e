// Package oracle judges a relay by what is in the topic. It reads a topic from its first
// offset to its end and compares it with what was inserted: what is missing, unknown,
// repeated, moved to another partition, out of order within its key, or changed.
//
// It shares no code with the relay: its own client (franz-go), and for keys, partitions,
// order and values its own arithmetic, done by Postgres in SQL. A mistake in the relay's
// rules therefore can't excuse itself here.
//
// Use:
//
//	want, err := oracle.FromTable(ctx, conn, oracle.TableQuery{Table: "outbox_events", Partitions: 12})
//	got, err := oracle.ReadTopic(ctx, brokers, "orders")
//	report := oracle.Check(want, got)
//	if !report.Clean() { t.Fatal(report) }
//
// The traffic must have ended: the topic is read up to its end as of the call.
//
// Everything is compared that the table can tell: key, value, partition, headers, timestamp, the
// order in a key. What it can't tell is the position header. That must be well-formed, the same
// in each repeat, no other event's, of one commit for all events of a transaction, and rise in
// each key as the order of the table does, in whatever partitions its records are. Positions are
// not compared with the times of commits: a transaction takes its time before it writes its
// commit record, so that of two at the same time the later one may have the lower position.
//
// Keys, values and headers are kept as digests: an event takes some 320 bytes with its record
// (BenchmarkCheck: 232 kept, 87 while it is judged), so a million events need 320 MB.
package oracle
