package config

import (
	"regexp"
	"strings"
)

// Table is the schema-qualified name of a table.
type Table struct{ Schema, Name string }

var plainName = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)

// String prints the name so that Postgres and parseTable read it the same.
func (t Table) String() string { return quoteName(t.Schema) + "." + quoteName(t.Name) }

func quoteName(s string) string {
	if plainName.MatchString(s) {
		return s
	}
	return `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
}

// parseTable reads schema.table. A part in double quotes may hold anything, with a quote
// doubled; one without quotes is taken as it stands, upper case too.
func parseTable(s string) (Table, error) {
	var parts []string
	rest := s
	for {
		part, after, ok := cutName(rest)
		if !ok {
			return Table{}, bad("is not a table's name", `write it as schema.table; quote a part with special characters like "My.Table"`)
		}
		parts = append(parts, part)
		if after == "" {
			break
		}
		rest = after[1:]
	}
	switch len(parts) {
	case 1:
		return Table{}, bad("names no schema", "write it as schema.table, like public."+s)
	case 2:
		for _, p := range parts {
			if err := identifier(p); err != nil {
				return Table{}, err
			}
		}
		return Table{Schema: parts[0], Name: parts[1]}, nil
	}
	return Table{}, bad("has more than two parts", "write it as schema.table")
}

// cutName takes one part off s. What is left is empty or begins with a dot.
func cutName(s string) (part, after string, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		end := strings.IndexByte(s, '.')
		if end < 0 {
			end = len(s)
		}
		part, after = s[:end], s[end:]
		return part, after, part != "" && !strings.ContainsAny(part, "\" \t\r\n")
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		if s[i] != '"' {
			b.WriteByte(s[i])
			continue
		}
		if i+1 < len(s) && s[i+1] == '"' {
			b.WriteByte('"')
			i++
			continue
		}
		after = s[i+1:]
		return b.String(), after, b.Len() > 0 && (after == "" || after[0] == '.')
	}
	return "", "", false
}
