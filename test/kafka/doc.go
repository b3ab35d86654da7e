// Package kafka holds what Maven needs to fetch a Kafka broker, so that the binary and the
// tests have it without the source tree.
package kafka
