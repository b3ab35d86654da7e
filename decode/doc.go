// Package decode turns the frames of a pgoutput stream (protocol version 1, text
// format) into committed rows and messages. It is pure: no goroutine, no clock,
// no network, no logger.
package decode
