package wal

import "strings"

// StartupParameters are the settings that every replication connection pins. Values travel as
// text, and these decide how they print: the same row must be the same bytes whatever the
// server, the database or the role have configured.
func StartupParameters() map[string]string {
	return map[string]string{
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
