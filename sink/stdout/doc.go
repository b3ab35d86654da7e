// Package stdout is the sink that writes every record as a line of JSON, for pipes and for
// looking at what would be published.
//
// # The line
//
//	{"topic":"orders","partition":3,"position":"0001:0000000001A2B3C4:0000000000",
//	 "dedupe_key":"order.created:o-1:42","timestamp_ms":1700000000123,"key":"o-1",
//	 "value":"{\"total\": 12.50}","headers":[{"key":"event_id","value":"..."}]}
//
// (on one line). The fields come in this order and all of them are there. Keys, values and
// header values are byte strings, and any JSON reader gets them back exactly:
//
//   - bytes that are valid UTF-8 are a JSON string;
//   - other bytes are base64 (RFC 4648, padded) in a field whose name ends in _base64, instead
//     of the plain one: key_base64, value_base64;
//   - null is a key, value or header value that is null, which differs from "".
//
// A payload that is JSON is a string like any other, never embedded: a reader would parse and
// re-print it and so lose digits, order and duplicate keys, and a payload that is the JSON
// string "a" could not be told from the bytes a. jq '.value | fromjson' opens it.
//
// # What an ack means here
//
// A record is acknowledged when the write of its whole line returned: the bytes are in the
// kernel, in a pipe or the page cache. That is all that a pipe can say; a reader that dies
// after that, or a machine that loses power, loses lines which Postgres will not send again.
// It is no substitute for Kafka.
//
// Nothing waits for a timer: the writer writes as soon as there is something and gathers what
// arrives meanwhile, so an idle sink has written everything.
//
// A write error (a closed pipe, a full disk) is final. The records of that write are not
// acknowledged, every topic is reported as unpublishable, and Produce and Flush return the
// error. The last line may be torn: it lacks its newline, and its record comes again after a
// restart.
//
// A process whose standard output is a pipe that was closed gets SIGPIPE from the write, which
// ends it, unless it ignores that signal (signal.Ignore(syscall.SIGPIPE)); it then gets the
// error.
package stdout
