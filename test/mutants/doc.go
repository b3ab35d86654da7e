// Command mutants proves the tests. A mutant is a wrong relay, made by replacing text in its
// source, together with the test that has to fail on it. The command runs each named test on the
// right code, where it has to pass, and then on the mutant, where it has to fail. What survives
// shows a promise that no test holds.
//
//	go run ./test/mutants                  # all of them
//	go run ./test/mutants -run '^wal/' -v  # one area, with what the tests said
//	go run ./test/mutants -list            # what there is
//
// A red test that starts servers or binaries is run on the right code once more, directly after the
// mutant: where it is red there too, the machine was to blame, and the mutant is not dead but in
// error. So it is where a signal ended the test's process.
//
// The work tree is never changed: a mutant is built through an overlay (see go help build), which
// goes into GOFLAGS so that a binary that a test builds is the wrong one as well.
//
// # Add a mutant
//
// Write test/mutants/<area>/<name>.mutant:
//
//	Confirms the LSN of the commit record instead of the end of the transaction, so every start
//	repeats the last transaction.
//
//	promise: 4
//	test: ./internal/relay TestPublishesAndStoresTheEndOfTheCommit
//	file: internal/relay/pump.go
//	--- right
//		p.tracker.Seal(c.End)
//	--- wrong
//		p.tracker.Seal(c.Commit)
//	--- end
//
// The first paragraph says what this relay does wrong and what that costs. promise is the number
// in the table of docs/GUARANTEES.md, or several with commas. test is the package and the test or
// subtest (as -v prints it, without spaces) that has to fail; further words are flags of go test.
// The lines between right and wrong stand exactly once in the file, as whole lines with their
// indentation; what is between wrong and end takes their place, and may be nothing. file and its
// blocks repeat where a mistake needs several places.
//
// Then run it: go run ./test/mutants -v -count 3 -run '<area>/<name>'. It has to compile, and the named
// test has to fail each time, soon, with a line that says what went wrong. Choose mistakes that an
// engineer could make or that a known relay makes. If it survives, the test is missing: write that
// first.
package main
