// Package integration holds the cases that a relay of this kind has failed at in the field, each as
// a test of the real binary on a real Postgres and a real Kafka.
package integration
