// Package checkpoint says how far a source has been published: the Tracker turns acks that
// come in any order into one position that only moves right, Decide turns stored state, slot
// and server into the one place where streaming may start, and Store keeps that state in
// Postgres under an owner token.
//
// # Order of persistence
//
// Kafka acknowledges, then Store.Save writes the position into the slot's row, then the position
// that was stored, and no other, is confirmed to Postgres. Whatever is killed in between, the
// row never says more than Kafka has, and the slot never more than the row.
//
// # Where streaming may start
//
// Postgres accepts a wrong position without an error and skips what lies before it. So every
// session reads the slot, then the row, then the server, and asks Decide:
//
//	row       slot                                server                       outcome
//	none      none                                                             first start
//	none      healthy                                                          adopt: start at the slot
//	none      anything else                                                    refuse
//	creating  none                                as stored                    go on with the first start
//	creating  healthy                             same system                  start at the slot, the row goes live
//	live      confirmed <= row                    same, row <= flushed         start at the row
//	live      healthy, confirmed and row <= the   a newer timeline, the row's  failover: start at the greater of both
//	          end of the row's timeline           an ancestor
//	live      confirmed > row                     same timeline                refuse: moved or made again
//	live      confirmed > the end of the          a newer timeline             refuse: made after the promotion
//	          row's timeline
//	live      none, or lost                                                    refuse
//	retired   none                                                             first start with a new lineage
//	anything else                                                              refuse
//
// A slot is healthy when it is a permanent one of pgoutput in this database, without two_phase, with
// its WAL there, and confirmed no further than the server has flushed. A refusal is a
// *RefuseError that shows row, slot and server.
//
// After a start was decided and begun, and before anything is published, Store.Take puts the
// owner token into the row. A relay that was frozen and wakes up finds another one there, and
// its next Save fails with ErrOwnerLost.
package checkpoint
