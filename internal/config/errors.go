package config

import (
	"strconv"
	"strings"
)

// Problem is one thing that is wrong with the configuration.
type Problem struct {
	// Key is the path in the file, or the name of what isn't a key.
	Key string
	// Value is what was given, and empty for a secret or where there is none.
	Value string
	// Origin says where it was given: a flag, a variable, a file and its line. Empty where it
	// was given nowhere.
	Origin string
	// Cause is what is wrong with it.
	Cause string
	// Remedy is what to do, in a sentence; may be empty.
	Remedy string
}

func (p *Problem) Error() string {
	var b strings.Builder
	b.WriteString("configuration: ")
	b.WriteString(p.Key)
	if p.Value != "" {
		b.WriteString(" " + strconv.Quote(clip(withoutLogin(p.Value))))
	}
	if p.Origin != "" {
		b.WriteString(" (" + p.Origin + ")")
	}
	b.WriteString(": " + p.Cause)
	return b.String()
}

// withoutLogin hides what stands before an @: people write logins there, also where none belongs.
func withoutLogin(s string) string {
	if at := strings.LastIndexByte(s, '@'); at >= 0 {
		return mask + s[at:]
	}
	return s
}

// Hint says what to do.
func (p *Problem) Hint() string { return p.Remedy }

// ExitCode is 2: usage or configuration.
func (p *Problem) ExitCode() int { return 2 }

// clip keeps a message readable when somebody pastes a file into a variable.
func clip(s string) string {
	const most = 80
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "..."
	}
	return s
}

// Error is everything that is wrong with a configuration.
type Error struct{ Problems []*Problem }

func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives the problems one by one.
func (e *Error) Unwrap() []error {
	errs := make([]error, len(e.Problems))
	for i, p := range e.Problems {
		errs[i] = p
	}
	return errs
}

// ExitCode is 2: usage or configuration.
func (e *Error) ExitCode() int { return 2 }
