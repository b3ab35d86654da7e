package config

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

const (
	// secretBytesMax bounds a password; a token of a cloud provider has some 2 KiB.
	secretBytesMax = 64 << 10
	// commandTimeout bounds password_command, so that a hanging helper shows up as an error.
	commandTimeout = 30 * time.Second
)

// Command is a program whose output is a password. It prints as xxxxx.
type Command struct{ args []string }

// IsZero says that there is no command.
func (c Command) IsZero() bool { return len(c.args) == 0 }

// Format hides the command under every verb.
func (c Command) Format(f fmt.State, r rune) { NewSecret(strings.Join(c.args, "")).Format(f, r) }

// MarshalText hides the command.
func (c Command) MarshalText() ([]byte, error) {
	return NewSecret(strings.Join(c.args, "")).MarshalText()
}

// run returns what the program prints, less one newline at the end. Neither the command nor
// what it prints is in the error: both can hold the password.
func (c Command) run(ctx context.Context) (Secret, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	var out limited
	cmd := exec.CommandContext(ctx, c.args[0], c.args[1:]...)
	cmd.Stdout = &out
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case out.over:
		err = errTooLong
	case ctx.Err() != nil:
		err = fmt.Errorf("run it: %w", context.Cause(ctx))
	case errors.As(err, &exit):
		err = fmt.Errorf("it ended with %s", exit.ProcessState)
	case err != nil:
		err = errors.New("it can't be started")
	default:
		return trimSecret("postgres.password_command", out.kept.Bytes())
	}
	return Secret{}, &SecretError{Key: "postgres.password_command", Cause: err}
}

// SecretError says that a password couldn't be had. It names the key, and quotes nothing.
type SecretError struct {
	Key   string
	Cause error
}

func (e *SecretError) Error() string { return "read the password of " + e.Key + ": " + e.Cause.Error() }

func (e *SecretError) Unwrap() error { return e.Cause }

// Hint says what to do.
func (e *SecretError) Hint() string {
	if strings.HasSuffix(e.Key, "_command") {
		return "run the command by hand, as the same user: neither it nor its output is repeated here, because both may hold the password"
	}
	return ""
}

// ExitCode is 2: configuration.
func (e *SecretError) ExitCode() int { return 2 }

var errTooLong = fmt.Errorf("it is longer than %d bytes", secretBytesMax)

// readSecret reads a password from a file, less one newline at the end: editors add it, and
// blanks can be part of a password.
func readSecret(key, path string) (Secret, error) {
	f, err := os.Open(path)
	if err != nil {
		return Secret{}, &SecretError{Key: key, Cause: err}
	}
	defer f.Close() // opened for reading only
	b, err := io.ReadAll(io.LimitReader(f, secretBytesMax+1))
	if err != nil {
		return Secret{}, &SecretError{Key: key, Cause: err}
	}
	return trimSecret(key, b)
}

func trimSecret(key string, b []byte) (Secret, error) {
	if len(b) > secretBytesMax {
		return Secret{}, &SecretError{Key: key, Cause: errTooLong}
	}
	s := strings.TrimSuffix(string(b), "\n")
	s = strings.TrimSuffix(s, "\r")
	switch {
	case s == "":
		return Secret{}, &SecretError{Key: key, Cause: errEmptySecret}
	case slices.Contains([]byte(s), 0):
		return Secret{}, &SecretError{Key: key, Cause: errors.New("it contains a NUL byte")}
	}
	return NewSecret(s), nil
}

// readableSecret checks a file that holds a password.
func readableSecret(path string) error {
	if err := readable(path); err != nil {
		return err
	}
	if _, err := readSecret("", path); err != nil {
		return bad("is no password: "+errors.Unwrap(err).Error(), "write the password into it, and nothing else")
	}
	return nil
}

// limited keeps at most secretBytesMax bytes and refuses the rest. The buffer is no embedded
// field: its ReadFrom would be taken in the place of Write.
type limited struct {
	kept bytes.Buffer
	over bool
}

func (l *limited) Write(p []byte) (int, error) {
	if l.kept.Len()+len(p) > secretBytesMax {
		l.over = true
		return 0, errTooLong
	}
	return l.kept.Write(p)
}
