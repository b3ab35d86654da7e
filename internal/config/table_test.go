package config

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// The table is the documentation of the keys: each row is whole, and no name has two meanings.
func TestTable(t *testing.T) {
	names := map[string]string{}
	for i := range table {
		k := &table[i]
		if (k.flag == "") == (k.noFlag == "") {
			t.Errorf("%s: wants a flag, or a reason why there is none", k.path)
		}
		if k.usage == "" && !k.soon {
			t.Errorf("%s: has no usage", k.path)
		}
		if !k.soon && (k.set == nil || k.get == nil) {
			t.Errorf("%s: can't be set or shown", k.path)
		}
		if isSection(k.path) {
			t.Errorf("%s: is a key and a section", k.path)
		}
		for _, name := range append(k.variables(), k.flag, k.path) {
			if other, ok := names[name]; ok && other != k.path && name != "" {
				t.Errorf("%s names %s and %s", name, other, k.path)
			}
			names[name] = k.path
		}
		if k.def != "" {
			if p := k.apply(&Config{}, given{value: value{text: k.def}}); p != nil {
				t.Errorf("%s: its default: %v", k.path, p)
			}
		}
	}
	if _, ok := names[fileEnv]; ok {
		t.Errorf("%s is the name of a key", fileEnv)
	}
	for _, path := range RunNeeds() {
		if _, ok := keyAt(path); !ok {
			t.Errorf("run needs the unknown key %s", path)
		}
	}
}

// The whole file has every key that is there, so that no key goes untested.
func TestWholeFileIsWhole(t *testing.T) {
	c := mustLoad(t, Sources{File: write(t, whole)})
	shown := map[string]bool{}
	for _, s := range c.Settings() {
		shown[s.Key] = s.Origin != "default"
	}
	for i := range table {
		k := &table[i]
		if file := strings.HasSuffix(k.path, "_file"); k.soon || file {
			continue
		}
		if !shown[k.path] {
			t.Errorf("%s isn't in the whole file", k.path)
		}
	}
}

// What is shown can be read again, and is the same but for the secrets.
func TestShownConfigurationIsRead(t *testing.T) {
	for _, text := range []string{whole, "", "publication: 'true'\nslot: {name: null_}\ntopic: {name: '1'}\nadmin: {listen: '[::1]:0'}\n"} {
		c := mustLoad(t, Sources{File: write(t, text)})
		var shown bytes.Buffer
		if err := c.WriteYAML(&shown); err != nil {
			t.Fatal(err)
		}
		again := mustLoad(t, Sources{File: write(t, strings.ReplaceAll(shown.String(), "password_command: xxxxx", "password_command: [xxxxx]"))})
		if got, want := plain(t, again), plain(t, c); got != want {
			t.Errorf("shown as\n%s\ngot  %s\nwant %s", shown.String(), got, want)
		}
		var tree map[string]any
		if err := yaml.Unmarshal(shown.Bytes(), &tree); err != nil {
			t.Errorf("not YAML: %v\n%s", err, shown.String())
		}
		for line := range strings.Lines(shown.String()) {
			if !strings.Contains(line, " # ") && !strings.HasSuffix(line, ":\n") {
				t.Errorf("line without origin: %s", line)
			}
		}
	}
}

// plain prints the settings without their origins.
func plain(t *testing.T, c Config) string {
	t.Helper()
	s := c.Settings()
	for i := range s {
		s[i].Origin = ""
	}
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestFlags(t *testing.T) {
	all := Flags()
	var names []string
	for _, f := range all {
		names = append(names, f.Name)
	}
	for _, want := range []string{"publication", "topic", "slot", "database-url", "kafka-brokers", "partition-count", "admin-listen", "log-level"} {
		if !slices.Contains(names, want) {
			t.Errorf("no flag --%s", want)
		}
	}
	some := Flags("postgres.url", "publication")
	if len(some) != 2 || some[0].Name != "database-url" || some[1].Default != "outbox" {
		t.Errorf("got %+v", some)
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{"1": 1, "1B": 1, "64KiB": 64 << 10, "16MiB": 16 << 20, "16 MiB": 16 << 20, "4GiB": 4 << 30, "1048577": 1<<20 + 1} {
		got, err := parseSize(text)
		if err != nil || got != want {
			t.Errorf("parseSize(%q) = %d, %v; want %d", text, got, err, want)
		}
		if again, err := parseSize(formatSize(got)); err != nil || again != got {
			t.Errorf("%d is printed as %s and read as %d (%v)", got, formatSize(got), again, err)
		}
	}
	for _, text := range []string{"", "MiB", "-1", "1.5MiB", "1mib", "16MB", "1 000", "9223372036854775808", "9007199254740992GiB"} {
		if got, err := parseSize(text); err == nil {
			t.Errorf("parseSize(%q) = %d, want an error", text, got)
		}
	}
}
