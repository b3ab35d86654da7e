package config

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	encodeRemedy = "percent-encode special characters of the password in a URL, or keep it out of it with postgres.password_file"
	quoteRemedy  = "put values with special characters in single quotes, with \\ before ' and \\, or use postgres.password_file"
)

// ConnString is the connection string with the password in its place, for whoever connects. The
// file is read and the command is run anew each time, so that a password that rotates is
// the current one. It is as secret as the password: it must not be logged.
func (p Postgres) ConnString(ctx context.Context) (string, error) {
	var pw Secret
	var err error
	switch {
	case p.PasswordFile != "":
		pw, err = readSecret("postgres.password_file", p.PasswordFile)
	case !p.PasswordCommand.IsZero():
		pw, err = p.PasswordCommand.run(ctx)
	default:
		return p.URL.Reveal(), nil
	}
	if err != nil {
		return "", err
	}
	return withPassword(p.URL.Reveal(), pw.Reveal()), nil
}

// withPassword adds a password to a connection string that has none.
func withPassword(dsn, pw string) string {
	if _, isURL := cutScheme(dsn); isURL {
		mark := "?"
		if strings.Contains(dsn, "?") {
			mark = "&"
		}
		return dsn + mark + "password=" + strings.ReplaceAll(url.QueryEscape(pw), "+", "%20")
	}
	return dsn + " password='" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(pw) + "'"
}

// checkDSN refuses a connection string that can't be one. No part of it is in the error: where
// its structure is in doubt, any part may belong to the password.
func checkDSN(dsn string) error {
	d, err := parseDSN(dsn)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(d.params, func(p param) bool { return p.key == "replication" }) {
		return bad("sets replication", "remove it: the relay opens both kinds of connection itself")
	}
	if _, err := pgconn.ParseConfig(dsn); err != nil {
		return bad("is not a connection string: "+d.hide(parseCause(err)), "")
	}
	return nil
}

// parseCause is pgconn's reason without the connection string that it begins with.
func parseCause(err error) string {
	s := err.Error()
	if i := strings.LastIndex(s, "`: "); i >= 0 {
		s = s[i+len("`: "):]
	}
	return s
}

// RedactDSN prints a connection string without its secrets: the password, and the value of
// every parameter that isn't known to be harmless. One that can't be parsed is masked whole.
func RedactDSN(dsn string) string {
	d, err := parseDSN(dsn)
	if err != nil {
		return mask
	}
	if !d.isURL {
		parts := make([]string, len(d.params))
		for i, p := range d.params {
			parts[i] = p.shownKey() + "=" + quoteValue(p.shown())
		}
		return strings.Join(parts, " ")
	}
	var b strings.Builder
	b.WriteString("postgres://" + d.user)
	if d.hasPassword {
		b.WriteString(":" + mask)
	}
	if d.hasUser {
		b.WriteByte('@')
	}
	b.WriteString(d.place)
	for i, p := range d.params {
		b.WriteByte("?&"[min(i, 1)])
		b.WriteString(p.shownKey() + "=" + strings.ReplaceAll(url.QueryEscape(p.shown()), "%2F", "/"))
	}
	return b.String()
}

func hasPassword(dsn string) bool {
	d, err := parseDSN(dsn)
	if err != nil {
		return false
	}
	return d.password != "" || slices.ContainsFunc(d.params, func(p param) bool { return p.key == "password" && p.value != "" })
}

// dsnParts are the parts of a connection string that matter for hiding what is secret.
type dsnParts struct {
	isURL                bool
	user, password       string // URL only; user as written, password decoded
	hasUser, hasPassword bool
	place                string // URL only: hosts, ports and database, as written
	params               []param
}

type param struct{ key, value string }

// harmless are the parameters whose values are shown.
var harmless = []string{
	"host", "hostaddr", "port", "user", "dbname", "database", "sslmode", "sslrootcert", "sslcert", "sslkey", "sslsni",
	"sslnegotiation", "application_name", "connect_timeout", "target_session_attrs", "channel_binding", "service",
}

// shownKey hides a name that isn't known, because a blank in an unquoted password makes one.
func (p param) shownKey() string {
	if p.key == "password" || slices.Contains(harmless, p.key) {
		return p.key
	}
	return mask
}

func (p param) shown() string {
	if slices.Contains(harmless, p.key) {
		return p.value
	}
	return mask
}

// hide takes the secrets out of a message of somebody else.
func (d *dsnParts) hide(s string) string {
	secrets := []string{d.password}
	for _, p := range d.params {
		if !slices.Contains(harmless, p.key) {
			secrets = append(secrets, p.value)
		}
	}
	for _, x := range secrets {
		if x != "" {
			s = strings.ReplaceAll(s, x, mask)
		}
	}
	return s
}

func cutScheme(dsn string) (rest string, isURL bool) {
	for _, scheme := range []string{"postgres://", "postgresql://"} {
		if rest, ok := strings.CutPrefix(dsn, scheme); ok {
			return rest, true
		}
	}
	return "", false
}

func parseDSN(dsn string) (*dsnParts, error) {
	if strings.ContainsRune(dsn, 0) {
		return nil, bad("contains a NUL byte", "remove it")
	}
	if rest, ok := cutScheme(dsn); ok {
		return parseURL(rest)
	}
	if i := strings.Index(dsn, "://"); i >= 0 && !strings.Contains(dsn[:i], "=") {
		return nil, bad("is a URL of another kind", "let it begin with postgres://")
	}
	return parseKeywords(dsn)
}

// parseURL is stricter than libpq, so that the parts are certain: a password with a raw
// special character would otherwise be taken apart in some other way, and parts of it
// shown as a host or a database.
func parseURL(rest string) (*dsnParts, error) {
	if strings.ContainsAny(rest, " \t\r\n") {
		return nil, bad("contains a blank or a line break", encodeRemedy)
	}
	if strings.ContainsAny(rest, "#") {
		return nil, bad("contains a #", encodeRemedy)
	}
	d := &dsnParts{isURL: true}
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	if at := strings.IndexByte(rest, '@'); at >= 0 {
		if at > end || strings.Contains(rest[at+1:], "@") {
			return nil, bad("has a raw @ or / or ? where none can be", encodeRemedy)
		}
		if err := d.parseUser(rest[:at]); err != nil {
			return nil, err
		}
		rest = rest[at+1:]
	}
	place, query, _ := strings.Cut(rest, "?")
	d.place = place
	if query == "" {
		return d, nil
	}
	for pair := range strings.SplitSeq(query, "&") {
		k, v, ok := strings.Cut(pair, "=")
		key, err1 := url.PathUnescape(k)
		val, err2 := url.PathUnescape(v)
		if !ok || err1 != nil || err2 != nil {
			return nil, bad("has a malformed parameter after the ?", encodeRemedy)
		}
		d.params = append(d.params, param{key, val})
	}
	return d, nil
}

func (d *dsnParts) parseUser(s string) error {
	d.hasUser = true
	user, pw, ok := strings.Cut(s, ":")
	d.user, d.hasPassword = user, ok
	var err error
	if d.password, err = url.PathUnescape(pw); err != nil {
		return bad("has a % that begins no %XX in its user or password", encodeRemedy)
	}
	if _, err := url.PathUnescape(user); err != nil {
		return bad("has a % that begins no %XX in its user or password", encodeRemedy)
	}
	return nil
}

var errKeywords = errors.New("is neither a postgres:// URL nor a list of keyword=value")

// parseKeywords reads host=h password='it\'s'. Blanks around the = are allowed, as libpq does.
func parseKeywords(s string) (*dsnParts, error) {
	d := &dsnParts{}
	const blanks = " \t\r\n\v\f"
	for s = strings.TrimLeft(s, blanks); s != ""; s = strings.TrimLeft(s, blanks) {
		key, rest, ok := strings.Cut(s, "=")
		key = strings.Trim(key, blanks)
		if !ok || key == "" || strings.ContainsAny(key, blanks) {
			return nil, bad(errKeywords.Error(), quoteRemedy)
		}
		val, rest, ok := cutValue(strings.TrimLeft(rest, blanks))
		if !ok {
			return nil, bad("has a single quote that doesn't end", quoteRemedy)
		}
		d.params = append(d.params, param{key, val})
		s = rest
	}
	if len(d.params) == 0 {
		return nil, bad(errKeywords.Error(), quoteRemedy)
	}
	return d, nil
}

// cutValue takes one value off s, with the quotes and backslashes resolved.
func cutValue(s string) (val, rest string, ok bool) {
	quoted := strings.HasPrefix(s, "'")
	if quoted {
		s = s[1:]
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		case quoted && c == '\'':
			return b.String(), s[i+1:], true
		case !quoted && strings.IndexByte(" \t\r\n\v\f", c) >= 0:
			return b.String(), s[i:], true
		case c != '\\':
			b.WriteByte(c)
		}
	}
	return b.String(), "", !quoted
}

func quoteValue(s string) string {
	if s != "" && !strings.ContainsAny(s, " '\\\t\r\n\v\f") {
		return s
	}
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}
