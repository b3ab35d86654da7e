// Package admin is the relay's HTTP address for machines: /livez, /readyz and /metrics. It only
// reads: it takes no decision and changes nothing.
//
// New makes the server and its metrics; Events are the callbacks to give to the relay; Start binds
// the address; Shutdown ends it. The status is asked for at each request and each scrape.
package admin
