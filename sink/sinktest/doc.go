// Package sinktest has what tests of sinks and with sinks need: Recorder, a sink in memory that
// can be held, refuse and fail; Ledger, a handler that checks what a sink reports; and Run, the
// conformance suite that every sink passes.
package sinktest
