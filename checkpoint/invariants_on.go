//go:build invariants || race

package checkpoint

// invariants makes misuse of a Tracker panic where it happens.
const invariants = true
