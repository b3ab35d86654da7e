// Package waltest helps to test what reads a replication stream: Server plays
// Postgres's side of the protocol from a script, Record takes down what a real
// server sends, and WriteFrames and ReadFrames keep such recordings in files.
package waltest
