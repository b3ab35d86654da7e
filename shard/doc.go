// Package shard holds the frozen partition functions and the contracts that say which
// one is in force at which position. It is pure. A function that has been released never
// changes: the partition of every event already published depends on it.
//
// testdata/vectors.csv has examples of every function, for other languages to check
// themselves against.
package shard
