// Command suites reads the output of `go test -json` from its standard input and prints what each
// package ran, what it skipped and why, and the versions of the servers that it used. It exits
// with 1 when a test failed, when nothing ran, or, with -noskip, when a test was skipped.
package main
