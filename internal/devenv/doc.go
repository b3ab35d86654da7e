// Package devenv starts a real Postgres and a Kafka broker for the demo and for tests, on
// a machine that may have neither, and leaves nothing behind.
//
// Postgres is the machine's own when its server programs are there, else it is fetched
// from Maven Central once and kept in the user's cache folder. Kafka is a real single
// node (KRaft) where Java 17 and Maven are; [StartEmbedded] is an in-process stand-in for
// where they are not.
//
// A server lives in one temporary folder, on a free port of 127.0.0.1, in a process group
// of its own: Ctrl-C in a terminal reaches the owner first, which stops its servers in its
// own order. Close stops a server and removes its folder. Where the owner is killed
// without a chance to close, Linux ends the servers with it; the folder stays until the
// next start, which removes the folders that have no owner any more.
//
// Environment:
//
//	CDC_RELAY_DEVENV_POSTGRES   machine | fetched | a folder with initdb and postgres
//	CDC_RELAY_DEVENV_KAFKA      none: act as if Java were missing
//
// A process that runs as root starts Postgres, which refuses root, under uid 65534.
package devenv
