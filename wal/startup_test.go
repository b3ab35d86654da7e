package wal

import "testing"

func TestPublicationNames(t *testing.T) {
	for name, want := range map[string]string{
		"outbox":    `'"outbox"'`,
		"Out Box":   `'"Out Box"'`,
		`a"b`:       `'"a""b"'`,
		`it's`:      `'"it''s"'`,
		`back\sl`:   `'"back\sl"'`,
		`a","b`:     `'"a"",""b"'`,
		`'; DROP x`: `'"''; DROP x"'`,
	} {
		if got := PublicationNames(name); got != want {
			t.Errorf("publication %q is written %s, want %s", name, got, want)
		}
	}
}
