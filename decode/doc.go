// Package decode turns the frames of a pgoutput stream (protocol version 1, text
// format) into committed rows and messages. It is pure: no goroutine, no clock,
// no network, no logger.
//
// # Duties of the caller
//
//  1. Make one Decoder for each START_REPLICATION: the server announces the shape of
//     a table once in a stream, and a new stream may begin before the end of the last.
//  2. Hand it every frame, keepalives included, in stream order, from one goroutine.
//  3. Use or copy what a Change borrows before the next call, and before the frame's
//     batch is released.
//  4. Stop at the first error. The decoder repeats it for ever, so that nothing that
//     lies behind damaged bytes can be taken for an event.
//
// # What it relies on
//
// The format is that of the chapter "Logical Replication Message Formats" in the
// Postgres manual; where the manual is silent, of src/backend/replication/logical/proto.c.
// In protocol 1 a transaction is sent as a whole and only after it has committed, so
// Begin already carries the LSN of its commit record and nothing can abort any more.
//
// # Memory
//
// A row costs no allocation: its values point into the frame. What a Decoder keeps is
// one Relation for each table that had a change in this stream, as the server's own
// output plugin does for the same stream; its size is bounded by the number of published
// tables and partitions, and a new stream starts empty. No length on the wire is
// believed before it was compared with the bytes that are there.
package decode
