// Package catalog asks Postgres what a relay must know about its tables: what a publication
// holds, which columns a table has, and what a relation in the stream is. It changes nothing.
package catalog
