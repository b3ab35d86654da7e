package config

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// awkward is a password with everything that DSNs, YAML, shells and files trip over: its last
// character is a blank.
const awkward = `p@ss:/?#[]%I\G {y'"£ `

// printing is a command that prints a file. It needs no program but a shell.
func printing(path string) string { return "IFS= read -r pw < '" + path + `'; printf '%s\n' "$pw"` }

func yamlQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// The password arrives whole at the one who connects, by each way of giving it.
func TestAwkwardPassword(t *testing.T) {
	pwFile := filepath.Join(t.TempDir(), "pw")
	if err := os.WriteFile(pwFile, []byte(awkward+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	escaped := strings.ReplaceAll(url.QueryEscape(awkward), "+", "%20")
	quoted := strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(awkward)
	inURL := "postgres://relay:" + escaped + "@h:5433/db?sslmode=disable"
	inParameter := "postgres://relay@h:5433/db?sslmode=disable&password=" + escaped
	inKeywords := "host=h port=5433 user=relay dbname=db sslmode=disable password='" + quoted + "'"
	for name, src := range map[string]Sources{
		"url in file":         {File: write(t, "postgres: {url: "+yamlQuote(inURL)+"}")},
		"url in environment":  {Environ: []string{"DATABASE_URL=" + inURL}},
		"url in flag":         {Flags: map[string]string{"postgres.url": inURL}},
		"parameter of url":    {Environ: []string{"DATABASE_URL=" + inParameter}},
		"keywords":            {Environ: []string{"DATABASE_URL=" + inKeywords}},
		"keywords in file":    {File: write(t, "postgres: {url: "+yamlQuote(inKeywords)+"}")},
		"file and url":        {Flags: map[string]string{"postgres.url": "postgres://relay@h:5433/db?sslmode=disable", "postgres.password_file": pwFile}},
		"file and bare url":   {Flags: map[string]string{"postgres.url": "postgres://relay@h:5433/db", "postgres.password_file": pwFile}},
		"file and keywords":   {Flags: map[string]string{"postgres.url": "host=h port=5433 user=relay dbname=db", "postgres.password_file": pwFile}},
		"command as list":     {File: write(t, "postgres:\n  url: postgres://relay@h:5433/db\n  password_command: [/bin/sh, -c, 'printf \"%s\\n\" \"$1\"', sh, "+yamlQuote(awkward)+"]")},
		"command as text":     {Environ: []string{"DATABASE_URL=postgres://relay@h:5433/db", "CDC_RELAY_POSTGRES_PASSWORD_COMMAND=" + printing(pwFile)}},
		"command and file":    {File: write(t, "postgres:\n  url: host=h port=5433 user=relay dbname=db\n  password_command: "+yamlQuote(printing(pwFile)))},
		"postgresql:// works": {Environ: []string{"DATABASE_URL=postgresql://relay:" + escaped + "@h:5433/db"}},
	} {
		c := mustLoad(t, src)
		dsn, err := c.Postgres.ConnString(context.Background())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		pc, err := pgconn.ParseConfig(dsn)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if pc.Password != awkward || pc.User != "relay" || pc.Host != "h" || pc.Port != 5433 || pc.Database != "db" {
			t.Errorf("%s: connects as %q with %q to %s:%d/%s", name, pc.User, pc.Password, pc.Host, pc.Port, pc.Database)
		}
		checkHidden(t, name, c)
	}
}

// checkHidden prints a configuration in every way there is and looks for pieces of the password.
func checkHidden(t *testing.T, name string, c Config) {
	t.Helper()
	var yaml strings.Builder
	if err := c.WriteYAML(&yaml); err != nil {
		t.Fatal(err)
	}
	js, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	settings, err := json.Marshal(c.Settings())
	if err != nil {
		t.Fatal(err)
	}
	prints := []string{yaml.String(), string(js), string(settings), fmt.Sprint(c), fmt.Sprint(&c)}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		prints = append(prints, fmt.Sprintf(verb, c), fmt.Sprintf(verb, c.Postgres.URL))
	}
	for _, s := range prints {
		leaks(t, name, s)
	}
}

// leaks looks for any piece of the awkward password, as it is or encoded.
func leaks(t *testing.T, name, s string) {
	t.Helper()
	for _, piece := range []string{"p@ss", "p%40ss", "ss:", "%I", `I\G`, `I%5CG`, "{y'", "£", "hunter2", "70407373"} {
		if strings.Contains(s, piece) {
			t.Errorf("%s: %q is shown in %s", name, piece, s)
		}
	}
}

// Raw, the password makes the connection string malformed. The message must not quote any of it,
// wherever it would fall if the string were taken apart after all.
func TestMalformedConnectionStrings(t *testing.T) {
	rows := []struct{ dsn, want string }{
		{"postgres://u:" + awkward + "@h/db", "contains a blank or a line break"},
		{"postgres://u:p@ss:/hunter2@h/db", "has a raw @ or / or ? where none can be"},
		{"postgres://u:1/hunter2@h/db", "has a raw @ or / or ? where none can be"},
		{"postgres://u:1?hunter2@h/db", "has a raw @ or / or ? where none can be"},
		{"postgres://u:hunter2#x@h/db", "contains a #"},
		{"postgres://u:hunter2%I@h/db", "has a % that begins no %XX in its user or password"},
		{"postgres://u%I:hunter2@h/db", "has a % that begins no %XX in its user or password"},
		{"postgres://u:hunter2@h/db?password", "has a malformed parameter after the ?"},
		{"postgres://u:hunter2@h/db?a=%zz", "has a malformed parameter after the ?"},
		{"postgres://u:hunter2@h:port/db", "is not a connection string: invalid port"},
		{"postgres://u:hunter2@h/db?sslmode=odd", "is not a connection string: failed to configure TLS (sslmode is invalid)"},
		{"postgres://u:hunter2@h/db?sslmode=verify-full&sslrootcert=/nonexistent", "is not a connection string: failed to configure TLS (unable to read CA file: open /nonexistent: no such file or directory)"},
		{"postgres://u:hunter2@h/db?replication=database", "sets replication"},
		{"mysql://u:hunter2@h/db", "is a URL of another kind"},
		{"hunter2", "is neither a postgres:// URL nor a list of keyword=value"},
		{"host=h password=hunter2 ss", "is neither a postgres:// URL nor a list of keyword=value"},
		{"host=h password='hunter2", "has a single quote that doesn't end"},
		{`host=h password='hunter2\'`, "has a single quote that doesn't end"},
		{"   ", "is neither a postgres:// URL nor a list of keyword=value"},
		{"host=h password=hunter2\x00", "contains a NUL byte"},
	}
	for _, row := range rows {
		got := problems(t, Sources{Environ: []string{"DATABASE_URL=" + row.dsn}, Need: []string{"postgres.url"}})
		want := "configuration: postgres.url (variable DATABASE_URL): " + row.want + " |"
		if len(got) != 1 || !strings.HasPrefix(got[0], want) {
			t.Errorf("%s\n got %q\nwant %q", row.dsn, got, want)
		}
		leaks(t, row.dsn, strings.Join(got, "\n"))
		leaks(t, row.dsn, RedactDSN(row.dsn))
	}
}

func TestRedactDSN(t *testing.T) {
	for dsn, want := range map[string]string{
		"postgres://u:hunter2@h:5432/db?sslmode=require": "postgres://u:xxxxx@h:5432/db?sslmode=require",
		"postgresql://h/db":                                    "postgres://h/db",
		"postgres://u@h1:1,h2:2/db":                            "postgres://u@h1:1,h2:2/db",
		"postgres://[::1]:5432/db":                             "postgres://[::1]:5432/db",
		"postgres://u@/db?host=/var/run/pg&password=hunter2":   "postgres://u@/db?host=/var/run/pg&password=xxxxx",
		"postgres://u@h/db?sslpassword=hunter2&options=-c%20x": "postgres://u@h/db?xxxxx=xxxxx&xxxxx=xxxxx",
		"host=h password='hunter2 x' dbname='my db'":           "host=h password=xxxxx dbname='my db'",
		"host = h password = hunter2 ss=x":                     "host=h password=xxxxx xxxxx=xxxxx",
		`host=h dbname='a\'b\\c' user=''`:                      `host=h dbname='a\'b\\c' user=''`,
		"postgres://u:hun@ter2@h/db":                           "xxxxx",
	} {
		if got := RedactDSN(dsn); got != want {
			t.Errorf("RedactDSN(%q) = %q, want %q", dsn, got, want)
		}
	}
}

func FuzzRedactDSN(f *testing.F) {
	f.Add("hunter2")
	f.Add(awkward)
	f.Add("@/?#&=")
	f.Fuzz(func(t *testing.T, pw string) {
		if len(pw) < 3 || strings.Contains("postgres://relay@host/database?sslmode=disable host=host user=relay dbname=database xxxxx", pw) {
			return
		}
		escaped := strings.ReplaceAll(url.QueryEscape(pw), "+", "%20")
		for _, dsn := range []string{
			"postgres://relay:" + pw + "@host/database?sslmode=disable",
			"postgres://relay:" + escaped + "@host/database?sslmode=disable",
			withPassword("postgres://relay@host/database?sslmode=disable", pw),
			withPassword("host=host user=relay dbname=database", pw),
		} {
			if s := RedactDSN(dsn); strings.Contains(s, pw) {
				t.Errorf("%q is shown in %q", pw, s)
			}
			if err := checkDSN(dsn); err != nil && strings.Contains(err.Error(), pw) && len(pw) > 8 {
				t.Errorf("%q is in %q", pw, err)
			}
		}
		for _, dsn := range []string{
			withPassword("postgres://relay@host/database?sslmode=disable", pw),
			withPassword("postgres://relay@host/database", pw),
			withPassword("host=host user=relay dbname=database", pw),
		} {
			c, err := pgconn.ParseConfig(dsn)
			if err != nil && strings.ContainsRune(pw, 0) {
				continue
			}
			if err != nil || c.Password != pw {
				t.Errorf("password %q arrives as %v (%v)", pw, c, err)
			}
		}
	})
}

func TestPasswordCommandFails(t *testing.T) {
	for name, row := range map[string]struct {
		command []string
		want    string
	}{
		"exit status":  {[]string{"/bin/sh", "-c", "echo hunter2; echo hunter2 >&2; exit 3"}, "it ended with exit status 3"},
		"not found":    {[]string{"/nonexistent/hunter2"}, "it can't be started"},
		"a password":   {[]string{"/bin/sh", "-c", "hunter2"}, "it ended with exit status 127"},
		"no output":    {[]string{"/bin/sh", "-c", ":"}, "it is empty"},
		"only newline": {[]string{"/bin/sh", "-c", "echo"}, "it is empty"},
		"endless":      {[]string{"/bin/sh", "-c", "while :; do echo hunter2; done"}, "it is longer than 65536 bytes"},
		"NUL":          {[]string{"/bin/sh", "-c", `printf 'a\000b'`}, "it contains a NUL byte"},
	} {
		_, err := Postgres{PasswordCommand: Command{args: row.command}}.ConnString(context.Background())
		var se *SecretError
		if !errors.As(err, &se) || se.ExitCode() != 2 || se.Hint() == "" {
			t.Errorf("%s: got %v, want a *SecretError with a hint", name, err)
			continue
		}
		if want := "read the password of postgres.password_command: " + row.want; err.Error() != want {
			t.Errorf("%s: got %q, want %q", name, err, want)
		}
		leaks(t, name, err.Error()+se.Hint())
	}
}

func TestPasswordCommandIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := Postgres{PasswordCommand: Command{args: []string{"/bin/sh", "-c", ":"}}}.ConnString(ctx)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want a cancellation", err)
	}
}

// A file is read for each connection, so that a new password is the one that is used.
func TestPasswordRotates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pw")
	p := Postgres{URL: NewSecret("host=h"), PasswordFile: path}
	s := SASL{PasswordFile: path, Password: NewSecret("unused")}
	for _, pw := range []string{"one", "two\r\n", " three "} {
		if err := os.WriteFile(path, []byte(pw), 0o600); err != nil {
			t.Fatal(err)
		}
		want := strings.TrimRight(pw, "\r\n")
		dsn, err := p.ConnString(context.Background())
		if err != nil || dsn != "host=h password='"+want+"'" {
			t.Errorf("got %q, %v", dsn, err)
		}
		if got, err := s.Secret(); err != nil || got.Reveal() != want {
			t.Errorf("got %q, %v", got.Reveal(), err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	var se *SecretError
	if _, err := p.ConnString(context.Background()); !errors.As(err, &se) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want a *SecretError for a missing file", err)
	}
}

// TestLoginOfABrokerIsNotPrinted: people write URLs with a password where none belongs.
func TestLoginOfABrokerIsNotPrinted(t *testing.T) {
	_, err := Load(Sources{Environ: []string{"KAFKA_BROKERS=kafka://u:hunter2@h:9092"}})
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("Load: %v, want a refusal without the password", err)
	}
}
