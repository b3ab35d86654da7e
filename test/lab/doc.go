// Package lab runs the real binary as a process against real servers, for the black-box suites:
// it builds it, sets a database and a topic up, writes events, kills and stops relays, and asks the
// oracle for a verdict.
package lab
