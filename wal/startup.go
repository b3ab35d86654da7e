package wal

import (
	"maps"
	"strings"
)

// pinned are the settings of every replication connection. Values travel as text, and these
// decide how they print: the same row must be the same bytes whatever the server, the
// database or the role have configured.
var pinned = map[string]string{
	"replication":        "database",
	"client_encoding":    "UTF8",
	"DateStyle":          "ISO, YMD",
	"TimeZone":           "UTC",
	"IntervalStyle":      "postgres",
	"bytea_output":       "hex",
	"extra_float_digits": "3",
	// Postgres 18 steps over a missing publication and says so only by a warning.
	"client_min_messages": "warning",
}

// PinStartup puts the settings that a stream depends on into the startup parameters of a
// connection, in place of what they hold.
func PinStartup(params map[string]string) {
	// The server folds names: "timezone", which PGTZ sets, would win or lose by chance.
	maps.DeleteFunc(params, func(name, _ string) bool {
		for p := range pinned {
			if strings.EqualFold(p, name) {
				return true
			}
		}
		return false
	})
	maps.Copy(params, pinned)
}

// PublicationNames is the value of the plugin option publication_names for one publication,
// quoted twice: the server splits the literal into identifiers, which fold to lower case
// unless they are quoted.
func PublicationNames(publication string) string {
	return quoteLiteral(quoteIdentifier(publication))
}

func quoteIdentifier(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

// quoteLiteral quotes for the grammar of replication commands, where a backslash is an ordinary
// character (src/backend/replication/repl_scanner.l).
func quoteLiteral(s string) string { return `'` + strings.ReplaceAll(s, `'`, `''`) + `'` }
