//go:build !invariants && !race

package checkpoint

// invariants is off: misuse of a Tracker freezes it and is reported by Err.
const invariants = false
