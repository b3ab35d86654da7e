// Package wal owns the replication connection to Postgres and the vocabulary
// of positions that every other package speaks: LSN, Position, Lineage, Frame.
//
// # Duties of the caller
//
//  1. Open a Stream. It connects, identifies the server and measures its
//     timeouts; nothing is streamed yet.
//  2. Ask it what it must know to decide where to start: System, SlotInfo,
//     TimelineHistory, and any SQL (Query) on the same connection.
//  3. Start at an LSN that was decided on, never guessed: Postgres accepts a
//     wrong one without an error and skips what lies before it.
//  4. Run until the context ends. Run is the only goroutine that reads and
//     writes the connection, and the only sender on the channel.
//  5. Release every Batch that was received, in any order.
//
// What is confirmed to Postgres is what Stored returns: the position that has
// been written to durable storage, and nothing else.
package wal
