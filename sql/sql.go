package sql

import (
	"embed"
	"fmt"
	"strings"
	"text/template"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
)

// Version is that of the relay's schema, stored in its table meta.
const Version = 1

// Names by default.
const (
	DefaultSchema      = "cdc_relay"
	DefaultTable       = "public.outbox_events"
	DefaultPublication = "outbox"
)

// Options say what setup makes. The zero value is the default of everything.
type Options struct {
	// Schema is the relay's own.
	Schema string
	// Table is the outbox, as schema.table. Names are taken as they are: no quotes, no folding.
	Table string
	// Publication is made for the table where it doesn't exist.
	Publication string
	// Role is that of the relay, and gets the rights it needs. Empty: no rights are granted.
	Role string
	// SkipOutbox: the table is the application's, of any shape. It must exist.
	SkipOutbox bool
}

// names are the options, checked and split, as they are; the templates get them quoted.
type names struct {
	schema, tableSchema, table, publication, role string
	skipOutbox                                    bool
}

func (o Options) names() (names, error) {
	n := names{schema: o.Schema, publication: o.Publication, role: o.Role, skipOutbox: o.SkipOutbox}
	if n.schema == "" {
		n.schema = DefaultSchema
	}
	if n.publication == "" {
		n.publication = DefaultPublication
	}
	table := o.Table
	if table == "" {
		table = DefaultTable
	}
	var ok bool
	if n.tableSchema, n.table, ok = strings.Cut(table, "."); !ok {
		return n, fmt.Errorf("table %q: name it with its schema, as in %s", table, DefaultTable)
	}
	for _, c := range []struct{ what, name string }{
		{"schema", n.schema}, {"schema of the table", n.tableSchema}, {"table", n.table}, {"publication", n.publication}, {"role", n.role},
	} {
		if err := checkName(c.what, c.name); err != nil && (c.what != "role" || c.name != "") {
			return n, err
		}
	}
	if n.schema == n.tableSchema {
		return n, fmt.Errorf("table %q: the schema %q is the relay's own, and a publication that holds its tables is refused", table, n.schema)
	}
	return n, nil
}

// nameMax is how many bytes of a name Postgres keeps (NAMEDATALEN - 1).
const nameMax = 63

func checkName(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%s: the name is empty", what)
	case len(name) > nameMax:
		return fmt.Errorf("%s %q: Postgres keeps only %d bytes of a name", what, name, nameMax)
	case !utf8.ValidString(name) || strings.ContainsAny(name, "\x00\n\r"):
		return fmt.Errorf("%s %q: the name holds characters that a script can't", what, name)
	case strings.Contains(name, "$"):
		return fmt.Errorf("%s %q: the name holds a $, which these scripts use to quote", what, name)
	}
	return nil
}

//go:embed *.sql
var files embed.FS

var templates = template.Must(template.ParseFS(files, "*.sql"))

// script is the SQL of one file for these names.
func (n names) script(file string) (string, error) {
	function := n.table
	const suffix = "_fill_keys"
	for len(function) > nameMax-len(suffix) {
		_, size := utf8.DecodeLastRuneInString(function)
		function = function[:len(function)-size]
	}
	table := pgx.Identifier{n.tableSchema, n.table}.Sanitize()
	var b strings.Builder
	err := templates.ExecuteTemplate(&b, file, map[string]any{
		"Version":            Version,
		"Schema":             pgx.Identifier{n.schema}.Sanitize(),
		"TableSchema":        pgx.Identifier{n.tableSchema}.Sanitize(),
		"Table":              table,
		"TableLiteral":       literal(table),
		"Function":           pgx.Identifier{n.tableSchema, function + suffix}.Sanitize(),
		"Publication":        pgx.Identifier{n.publication}.Sanitize(),
		"PublicationLiteral": literal(n.publication),
		"Role":               pgx.Identifier{n.role}.Sanitize(),
		"RoleLiteral":        literal(n.role),
	})
	if err != nil {
		return "", fmt.Errorf("write %s: %w", file, err)
	}
	return b.String(), nil
}

// literal quotes for SQL, whatever standard_conforming_strings says.
func literal(s string) string {
	s = strings.ReplaceAll(s, "'", "''")
	if strings.Contains(s, `\`) {
		return `E'` + strings.ReplaceAll(s, `\`, `\\`) + `'`
	}
	return "'" + s + "'"
}

const printHeader = `-- cdc-relay, version %d of its schema. Run it in the database of the outbox, as the owner of
-- the database or as a superuser. It may be run again: what is there is kept.
-- The server needs wal_level = logical (alter system set wal_level = 'logical', then a restart).

begin;

`

// Print is what Setup would run on an empty database, as a script for psql.
func Print(o Options) (string, error) {
	n, err := o.names()
	if err != nil {
		return "", err
	}
	list := []string{"relay.sql", "outbox.sql", "publication.sql"}
	if n.skipOutbox {
		list = []string{"relay.sql", "publication.sql"}
	}
	if n.role != "" {
		list = append(list, "grants.sql")
	}
	var b strings.Builder
	fmt.Fprintf(&b, printHeader, Version)
	for _, file := range list {
		text, err := n.script(file)
		if err != nil {
			return "", err
		}
		b.WriteString(text)
		b.WriteByte('\n')
	}
	b.WriteString("commit;\n")
	if n.role != "" { // by itself: who may do all of the above may still not do this
		text, err := n.script("role.sql")
		if err != nil {
			return "", err
		}
		b.WriteString("\n" + text)
	}
	return b.String(), nil
}
