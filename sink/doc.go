// Package sink is the contract between the pump and whatever takes the events: acknowledged,
// or exactly why not.
package sink
