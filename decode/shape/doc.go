// Package shape turns a row or a message into an event: it is the only place that
// knows what an outbox looks like. It is pure and serves the stream and table scans
// alike.
package shape
