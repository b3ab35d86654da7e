// Package proxy is a TCP proxy for tests that cuts, freezes and refuses connections, so
// that a real server can be made to fail as networks do.
package proxy
