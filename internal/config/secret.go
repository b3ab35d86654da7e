package config

import (
	"encoding/json"
	"fmt"
	"io"
)

// mask is what is printed in the place of a secret.
const mask = "xxxxx"

// Secret is a text that is never printed: every verb of fmt and every encoder shows xxxxx.
// The zero value is no secret and prints as nothing.
type Secret struct{ text string }

// NewSecret wraps a text.
func NewSecret(text string) Secret { return Secret{text} }

// Reveal returns the text itself, for the one who connects with it.
func (s Secret) Reveal() string { return s.text }

// IsZero says that there is no secret.
func (s Secret) IsZero() bool { return s.text == "" }

// String returns xxxxx, or nothing for the zero value.
func (s Secret) String() string {
	if s.IsZero() {
		return ""
	}
	return mask
}

// Format covers the verbs that don't ask for String.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// MarshalText covers encoders of text.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalJSON covers JSON.
func (s Secret) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }
