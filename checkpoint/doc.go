// Package checkpoint says how far a source has been published: the Tracker turns acks that
// come in any order into one position that only moves right, Decide turns stored state, slot
// and server into the one place where streaming may start, and Store keeps that state in
// Postgres under an owner token.
package checkpoint
