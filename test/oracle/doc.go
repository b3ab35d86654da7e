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
// Keys, values and headers are kept as digests, so a million events need some 400 MB.
package oracle
