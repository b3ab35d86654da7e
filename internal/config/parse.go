package config

import (
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const (
	// nameBytesMax is the longest identifier that Postgres keeps (NAMEDATALEN - 1).
	nameBytesMax = 63
	// countMax bounds partition.count. Kafka's own advice ends at some thousands per broker.
	countMax = 100_000
	// bufferMin and bufferMax bound kafka.buffer_bytes: below, batches don't fill; above, a
	// relay that should be small isn't.
	bufferMin = 64 << 10
	bufferMax = 4 << 30
	// drainMax bounds shutdown.drain. Whatever supervises the relay kills it long before.
	drainMax = time.Hour
)

func parseBool(s string) (bool, error) {
	switch s {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, bad("is neither true nor false", "use true or false")
}

// parseCount reads a whole number of decimal digits between least and most.
func parseCount(s string, least, most int64) (int64, error) {
	remedy := fmt.Sprintf("give a whole number from %d to %d", least, most)
	for _, r := range s {
		if r < '0' || r > '9' {
			return 0, bad("is not a whole number", remedy)
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < least || n > most {
		return 0, bad("is out of range", remedy)
	}
	return n, nil
}

var sizePattern = regexp.MustCompile(`^([0-9]+) ?([A-Za-z]*)$`)

// parseSize reads a number of bytes: digits, then B, KiB, MiB, GiB or nothing. The decimal units
// are refused, because half of those who write MB mean MiB.
func parseSize(s string) (int64, error) {
	m := sizePattern.FindStringSubmatch(s)
	if m == nil {
		return 0, bad("is not a size", "write it like 16MiB")
	}
	shift := map[string]uint{"": 0, "B": 0, "KiB": 10, "MiB": 20, "GiB": 30}
	by, ok := shift[m[2]]
	if !ok {
		return 0, bad(fmt.Sprintf("has the unknown unit %q", m[2]), "use B, KiB, MiB or GiB")
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil || n > math.MaxInt64>>by {
		return 0, bad("is out of range", "write it like 16MiB")
	}
	return n << by, nil
}

// formatSize prints a size so that parseSize reads the same.
func formatSize(n int64) string {
	for _, u := range []struct {
		name  string
		shift uint
	}{{"GiB", 30}, {"MiB", 20}, {"KiB", 10}} {
		if n >= 1<<u.shift && n%(1<<u.shift) == 0 {
			return strconv.FormatInt(n>>u.shift, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}

func parseDuration(s string, most time.Duration) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, bad("is not a duration", "write it like 20s or 1m30s")
	}
	if d < 0 || d > most {
		return 0, bad("is out of range", fmt.Sprintf("give a duration from 0s to %s", most))
	}
	return d, nil
}

func identifier(s string) error {
	switch {
	case len(s) > nameBytesMax:
		return bad(fmt.Sprintf("is longer than the %d bytes of a Postgres name", nameBytesMax), "shorten it")
	case strings.ContainsRune(s, 0):
		return bad("contains a NUL byte", "remove it")
	}
	return nil
}

var slotPattern = regexp.MustCompile(`^[a-z0-9_]{1,63}$`)

func slotName(s string) error {
	if !slotPattern.MatchString(s) {
		return bad("is not a name of a replication slot", "use 1 to 63 of the characters a-z, 0-9 and _")
	}
	return nil
}

var topicPattern = regexp.MustCompile(`^[A-Za-z0-9._-]{1,249}$`)

func topicName(s string) error {
	if !topicPattern.MatchString(s) || s == "." || s == ".." {
		return bad("is not a name of a topic", "use 1 to 249 of the characters a-z, A-Z, 0-9, dot, _ and -")
	}
	return nil
}

// address checks host:port to listen at.
func address(s string) error {
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return bad("is not host:port", "write it like 127.0.0.1:9464, or :9464 for every interface")
	}
	if _, err := parseCount(port, 0, math.MaxUint16); err != nil || port == "" {
		return bad("has a bad port", fmt.Sprintf("give a port from 0 to %d", math.MaxUint16))
	}
	return nil
}

// broker checks host:port to connect to.
func broker(s string) error {
	if at := strings.LastIndexByte(s, '@'); at >= 0 {
		return bad("has a user or a password", "write brokers as host:port, and give the login in kafka.sasl")
	}
	if strings.Contains(s, "://") {
		return bad(fmt.Sprintf("%q has a scheme", s), "write brokers as host:port, without scheme")
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil || host == "" {
		return bad(fmt.Sprintf("%q is not host:port", s), "write brokers as host:port with commas between them, like kafka:9092")
	}
	if _, err := parseCount(port, 1, math.MaxUint16); err != nil {
		return bad(fmt.Sprintf("%q has a bad port", s), fmt.Sprintf("give a port from 1 to %d", math.MaxUint16))
	}
	return nil
}

// readable checks that a file can be read, now rather than in the middle of a connection.
func readable(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return bad("can't be read: "+pathCause(err), "")
	}
	defer f.Close() // opened for reading only
	if st, err := f.Stat(); err == nil && st.IsDir() {
		return bad("is a directory", "name a file")
	}
	return nil
}

// pathCause is why a file can't be read, without repeating its name.
func pathCause(err error) string {
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		return pe.Err.Error()
	}
	return err.Error()
}
