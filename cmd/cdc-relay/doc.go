// Command cdc-relay streams the events of a transactional outbox from Postgres to Kafka.
//
// There is one file for each command. They parse, load the configuration, build and run; what
// they run lies in the other packages. exit.go is where errors become exit codes:
//
//	0  clean
//	1  unexpected, or events left that will repeat
//	2  usage, configuration, or an object or a privilege that is missing
//	3  findings: what was looked for isn't clean
//	4  the slot or the system that it belongs to is lost
//	5  halted, with --exit-on-halt
package main
