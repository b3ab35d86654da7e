package config

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// Setting is one key as it is in force, fit to be shown: secrets are masked.
type Setting struct {
	Key string `json:"key"`
	// Value is a text, a number, a bool or a list of texts.
	Value any `json:"value"`
	// Origin is a flag, a variable, a file and its line, or default.
	Origin string `json:"origin"`
}

// Settings lists every key that has a value.
func (c Config) Settings() []Setting { return slices.Clone(c.settings) }

func (k *key) setting(c *Config, origin string) (Setting, bool) {
	v := k.get(c)
	if v == nil {
		return Setting{}, false
	}
	return Setting{Key: k.path, Value: v, Origin: origin}, true
}

// WriteYAML writes the settings as a file that Load reads, each with its origin in a comment.
func (c Config) WriteYAML(w io.Writer) error {
	var open []string
	for _, s := range c.settings {
		parts := strings.Split(s.Key, ".")
		sections, name := parts[:len(parts)-1], parts[len(parts)-1]
		same := 0
		for same < len(open) && same < len(sections) && open[same] == sections[same] {
			same++
		}
		for i := same; i < len(sections); i++ {
			if _, err := fmt.Fprintf(w, "%s%s:\n", strings.Repeat("  ", i), sections[i]); err != nil {
				return err
			}
		}
		open = sections
		line := strings.Repeat("  ", len(sections)) + name + ": " + yamlValue(s.Value)
		if _, err := fmt.Fprintf(w, "%-44s # %s\n", line, s.Origin); err != nil {
			return err
		}
	}
	return nil
}

var plainYAML = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.:/+-]*[A-Za-z0-9_]$|^[0-9]+(s|ms|m[0-9]+s|h[0-9]+m[0-9]+s|B|KiB|MiB|GiB)$`)

// yamlValue prints a value so that YAML reads it back. Texts are quoted as JSON, which is
// YAML too, unless they are plain words.
func yamlValue(v any) string {
	switch v := v.(type) {
	case string:
		reserved := []string{"true", "false", "null", "yes", "no", "on", "off"}
		if plainYAML.MatchString(v) && !slices.Contains(reserved, strings.ToLower(v)) {
			return v
		}
		return jsonText(v)
	case []string:
		items := make([]string, len(v))
		for i := range v {
			items[i] = yamlValue(v[i])
		}
		return "[" + strings.Join(items, ", ") + "]"
	}
	return fmt.Sprint(v)
}

func jsonText(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		// A Go string always encodes.
		panic(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// Flag is how a key is given on the command line.
type Flag struct {
	Key     string
	Name    string
	Usage   string
	Default string
	Kind    Kind
}

// Flags lists the flags of all keys that have one, or only of the keys named.
func Flags(keys ...string) []Flag {
	var out []Flag
	for i := range table {
		k := &table[i]
		if k.flag == "" || len(keys) > 0 && !slices.Contains(keys, k.path) {
			continue
		}
		out = append(out, Flag{Key: k.path, Name: k.flag, Usage: k.usage, Default: k.def, Kind: k.kind})
	}
	return out
}
