package config

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func FuzzParseTable(f *testing.F) {
	f.Fuzz(func(t *testing.T, s string) {
		got, err := parseTable(s)
		if err != nil {
			return
		}
		if got.Schema == "" || got.Name == "" {
			t.Errorf("%q is read as %#v", s, got)
		}
		if again, err := parseTable(got.String()); err != nil || again != got {
			t.Errorf("%q is read as %#v, printed as %s, read as %#v (%v)", s, got, got.String(), again, err)
		}
	})
}

// FuzzFile reads any text as a file. What is wrong is said with key and cause; what isn't is
// printed as a file that means the same.
func FuzzFile(f *testing.F) {
	f.Add(whole)
	f.Fuzz(func(t *testing.T, text string) {
		c, problems := fuzzRead(text)
		again, problemsAgain := fuzzRead(text)
		if !reflect.DeepEqual(c, again) || !reflect.DeepEqual(problems, problemsAgain) {
			t.Errorf("read twice: %+v, %v; %+v, %v", c, problems, again, problemsAgain)
		}
		for _, p := range problems {
			if p.Key == "" || p.Cause == "" {
				t.Errorf("a problem without key or cause: %#v", p)
			}
		}
		if len(problems) == 0 {
			printsItself(t, c)
		}
	})
}

func fuzzRead(text string) (Config, []*Problem) {
	l := loader{given: map[string]given{}, bad: map[string]bool{}}
	readYAML(&l, "f.yaml", []byte(text))
	return l.build(), l.problems
}

// printsItself checks that the printed configuration is the same again, but for what is secret.
func printsItself(t *testing.T, c Config) {
	t.Helper()
	var b strings.Builder
	if err := c.WriteYAML(&b); err != nil {
		t.Fatal(err)
	}
	open := func(c Config) Config {
		c.settings = nil
		c.Postgres.URL, c.Postgres.PasswordCommand, c.Kafka.SASL.Password = Secret{}, Command{}, Secret{}
		c.Kafka.TLS.off = false // that TLS is off by word is no matter once it is
		return c
	}
	got, problems := fuzzRead(b.String())
	if len(problems) > 0 || !reflect.DeepEqual(open(got), open(c)) {
		t.Errorf("%+v is printed as\n%sand read as %+v, %v", open(c), b.String(), open(got), problems)
	}
}

// fuzzKey is a key that has a single value and doesn't make the test open a file of any name.
func fuzzKey(n uint8, texts ...string) (*key, bool) {
	k := &table[int(n)%len(table)]
	if k.section || strings.HasSuffix(k.path, "_file") &&
		slices.ContainsFunc(texts, func(s string) bool { return s != "" && !strings.HasPrefix(s, "/nonexistent/") }) {
		return nil, false
	}
	return k, true
}

// FuzzSources gives one key in a file, in the environment and by a flag. The flag counts before the
// variable and the variable before the file, and where a value comes from is no matter for what
// it means or for what is wrong with it.
func FuzzSources(f *testing.F) {
	f.Fuzz(func(t *testing.T, n uint8, inFile, inEnv, byFlag string) {
		k, ok := fuzzKey(n, inFile, inEnv, byFlag)
		if !ok || inFile+inEnv+byFlag == "" || !utf8.ValidString(inFile) {
			return // JSON, which stands for YAML here, would replace what isn't UTF-8
		}
		all, strongest := Sources{}, ""
		if inFile != "" {
			all.File, strongest = filepath.Join(t.TempDir(), "f.yaml"), inFile
			if err := os.WriteFile(all.File, []byte(fuzzYAML(t, k.path, inFile)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if inEnv != "" {
			all.Environ, strongest = []string{"HOME=/", k.variable() + "=" + inEnv}, inEnv
		}
		if byFlag != "" {
			all.Flags, strongest = map[string]string{k.path: byFlag}, byFlag
		}
		got, gotWrong := fuzzLoad(all)
		want, wantWrong := fuzzLoad(Sources{Flags: map[string]string{k.path: strongest}})
		if !reflect.DeepEqual(got, want) || !slices.Equal(gotWrong, wantWrong) {
			t.Errorf("%s: %q in the file, %q in the environment, %q by flag:\n got %+v, %q\nwant %+v, %q",
				k.path, inFile, inEnv, byFlag, got, gotWrong, want, wantWrong)
		}
		if c, err := Load(all); err == nil && !k.secret {
			printsItself(t, c)
		}
	})
}

// fuzzYAML is a file with one key, as text in quotes.
func fuzzYAML(t *testing.T, path, value string) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for i, part := range strings.Split(path, ".") {
		fmt.Fprintf(&b, "%s%s:", strings.Repeat(" ", i), part)
		if i == strings.Count(path, ".") {
			fmt.Fprintf(&b, " %s", text)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// fuzzLoad is Load without what depends on the source.
func fuzzLoad(src Sources) (c Config, wrong []string) {
	c, err := Load(src)
	c.settings = nil
	if e, ok := err.(*Error); ok {
		for _, p := range e.Problems {
			wrong = append(wrong, fmt.Sprintf("%s %q: %s; %s", p.Key, p.Value, p.Cause, p.Remedy))
		}
	}
	return c, wrong
}

// FuzzSecrets puts a secret into a value of the secret keys: neither what is wrong nor the
// printed configuration shows it.
func FuzzSecrets(f *testing.F) {
	const secret = "Gehe1m§mark"
	f.Fuzz(func(t *testing.T, before, after string, other uint8, otherValue string) {
		k, ok := fuzzKey(other, otherValue)
		if !ok {
			return
		}
		for _, path := range []string{"kafka.sasl.password", "postgres.password_command"} {
			flags := map[string]string{k.path: otherValue, "kafka.sasl.mechanism": "plain", "kafka.sasl.username": "u"}
			flags[path] = before + secret + after
			c, err := Load(Sources{Flags: flags})
			var b strings.Builder
			if werr := c.WriteYAML(&b); werr != nil {
				t.Fatal(werr)
			}
			for _, shown := range []string{fmt.Sprint(err), b.String(), fmt.Sprintf("%v %+v %#v %q", c, c, c, c.Settings())} {
				if strings.Contains(shown, secret) {
					t.Errorf("%s is shown in %s", path, shown)
				}
			}
		}
	})
}

// FuzzEnvironment reads lines as an environment.
func FuzzEnvironment(f *testing.F) {
	f.Fuzz(func(t *testing.T, lines string) {
		environ := strings.Split(lines, "\n")
		l := loader{given: map[string]given{}, bad: map[string]bool{}}
		env := readEnv(&l, environ)

		set := map[string]string{} // as a process sees it
		for _, line := range environ {
			if name, value, _ := strings.Cut(line, "="); value != "" {
				set[name] = value
			}
		}
		names := map[string]bool{"CDC_RELAY_CONFIG": true}
		if env.config != set["CDC_RELAY_CONFIG"] {
			t.Errorf("the file is %q", env.config)
		}
		for _, k := range table {
			if k.section {
				continue
			}
			var values []string
			for _, name := range append([]string{"CDC_RELAY_" + strings.ToUpper(strings.ReplaceAll(k.path, ".", "_"))}, k.env...) {
				names[name] = true
				if v, ok := set[name]; ok {
					values = append(values, v)
				}
			}
			got, given := env.given[k.path]
			if given != (len(values) > 0) || given && got.text != values[0] {
				t.Errorf("%s is %q, set are %q", k.path, got.text, values)
			}
			if differ := len(slices.Compact(values)) > 1; differ != l.bad[k.path] {
				t.Errorf("%s is set to %q; said to differ: %t", k.path, values, l.bad[k.path])
			}
		}
		for _, line := range environ {
			name, value, _ := strings.Cut(line, "=")
			ours := strings.HasPrefix(name, "CDC_RELAY_") && !strings.HasPrefix(name, "CDC_RELAY_DEVENV_")
			if l.bad[name] && (!ours || names[name]) {
				t.Errorf("%s is refused", name)
			}
			link := strings.Contains(name, "_SERVICE_") || strings.Contains(name, "_PORT") // Kubernetes' own
			if ours && !names[name] && !link && !l.bad[name] {
				t.Errorf("%s=%s is unknown, and nothing says so", name, value)
			}
		}
	})
}
