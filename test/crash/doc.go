// Package crash kills relay, Postgres and broker under traffic, round after round, and has the oracle
// judge what came of it.
package crash
