// Package demo shows what the relay promises, on real servers: an order service writes
// orders and events from several connections, a relay publishes them, is killed with SIGKILL
// in mid-stream and started again, and then the topic is compared with the table.
//
// The comparison shares no code with the relay: keys and partitions are computed anew from
// the table's rows, and the topic is read with another client.
package demo
