package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// valueError is what is wrong with a value, and what to write instead.
type valueError struct{ cause, remedy string }

func (e *valueError) Error() string { return e.cause }

func bad(cause, remedy string) error { return &valueError{cause, remedy} }

// apply parses one value into c.
func (k *key) apply(c *Config, g given) *Problem {
	p := &Problem{Key: k.path, Origin: g.origin}
	if !k.secret {
		p.Value = g.text
		if g.isList {
			p.Value = strings.Join(g.list, ",")
		}
	}
	if k.soon {
		p.Cause, p.Remedy = "is not supported yet", "leave it out"
		return p
	}
	if g.isList && k.kind != List {
		p.Cause, p.Remedy = "takes one value, not a list", ""
		return p
	}
	if !g.isList && g.text == "" {
		p.Cause, p.Remedy = "is empty", "give it a value, or leave it out"
		return p
	}
	if !k.secret && !utf8.ValidString(p.Value) {
		// Every name and address is UTF-8 where it goes, and so is the printed configuration.
		p.Cause, p.Remedy = "is not UTF-8", "write it in UTF-8"
		return p
	}
	err := k.set(c, g.value)
	if err == nil {
		return nil
	}
	p.Cause = err.Error()
	if ve, ok := errors.AsType[*valueError](err); ok {
		p.Remedy = ve.remedy
	}
	return p
}

// text is a field that takes any text that passes check.
func text(at func(*Config) *string, check func(string) error) field {
	return field{
		kind: Text,
		set: func(c *Config, v value) error {
			if check != nil {
				if err := check(v.text); err != nil {
					return err
				}
			}
			*at(c) = v.text
			return nil
		},
		get: func(c *Config) any { return textOrNil(*at(c)) },
	}
}

func textOrNil(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// choice is a field that takes one of a few words; later are those whose feature isn't there
// yet.
func choice(at func(*Config) *string, allowed []string, later ...string) field {
	f := text(at, func(s string) error { return oneOf(s, allowed, later) })
	return f
}

func oneOf(s string, allowed, later []string) error {
	switch {
	case slices.Contains(allowed, s):
		return nil
	case slices.Contains(later, s):
		return bad("is not supported yet", "use "+either(allowed))
	}
	return bad("is not a value of it", "use "+either(allowed))
}

func either(words []string) string {
	if n := len(words); n > 1 {
		return strings.Join(words[:n-1], ", ") + " or " + words[n-1]
	}
	return words[0]
}

// fixed is a field that takes one value so far, which is therefore not kept.
func fixed(only string, later ...string) field {
	return field{
		kind: Text,
		set:  func(_ *Config, v value) error { return oneOf(v.text, []string{only}, later) },
		get: func(*Config) any {
			if b, err := strconv.ParseBool(only); err == nil {
				return b
			}
			return only
		},
	}
}

func boolean(at func(*Config) *bool) field {
	return field{
		kind: Bool,
		set: func(c *Config, v value) (err error) {
			*at(c), err = parseBool(v.text)
			return err
		},
		get: func(c *Config) any { return *at(c) },
	}
}

func tables(at func(*Config) *[]Table, most int) field {
	return field{
		kind: List,
		set: func(c *Config, v value) error {
			names := v.items()
			if len(names) > most && most == 1 {
				return bad("more than one outbox table is not supported yet", "name one")
			}
			if len(names) > most {
				return bad(fmt.Sprintf("has %d names", len(names)), fmt.Sprintf("name at most %d", most))
			}
			var ts []Table
			for _, n := range names {
				t, err := parseTable(n)
				if err != nil {
					return err
				}
				ts = append(ts, t)
			}
			*at(c) = ts
			return nil
		},
		get: func(c *Config) any {
			ts := *at(c)
			if len(ts) == 0 {
				return nil
			}
			out := make([]string, len(ts))
			for i, t := range ts {
				out[i] = t.String()
			}
			return out
		},
	}
}

// items splits a text at commas, or takes the list as it is.
func (v value) items() []string {
	if v.isList {
		return v.list
	}
	parts := strings.Split(v.text, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}
