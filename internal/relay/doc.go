// Package relay is where the stages meet: the stream's goroutine and the pump beside the
// sink's own, one bounded channel between them, supervision with reconnects on both sides,
// and the two-step stop.
package relay
