// Package sql holds the tables that cdc-relay needs, as SQL for people to read and as a setup
// that makes what is missing: the relay's own schema, the outbox, its publication, and the
// rights of the relay's role. It makes no replication slot and no topic.
package sql
