// Package shape turns a row or a message into an event: it is the only place that
// knows what an outbox looks like. It is pure and serves the stream and table scans
// alike.
//
// # Duties of the caller
//
//  1. Make one Shape for each outbox and each goroutine with New.
//  2. Check the columns of the table before anything is streamed, and CheckRelation on
//     every new Relation of the stream.
//  3. Call Event for each row, in any order: the result depends on the row, its position
//     and its commit time alone, never on what came before.
//  4. Tell the two errors apart. A *RejectError is the row's fault, and will be the same for
//     ever: the policy for rejected events decides. Any other, *ColumnsError above all, is
//     not: nothing may be stepped over, the stream stops.
//
// # Reading guide
//
// shape.go puts an event together; keys.go has the three keys, record.go the record's
// timestamp and value, headers.go and json.go the row's own headers; layout.go finds the
// columns; timestamp.go reads what Postgres prints for a time.
package shape
