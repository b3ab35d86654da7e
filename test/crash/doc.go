// Package crash breaks the real binary, its servers and its connections under traffic, and has the
// oracle judge what came of it.
//
// TestKill kills the relay, Postgres and the broker round after round. TestFaults strikes with each
// fault that we know (fault_test.go) once. TestSoak mixes them by chance for as long as it is told.
package crash
