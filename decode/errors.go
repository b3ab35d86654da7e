package decode

import (
	"fmt"
	"strings"

	"github.com/cdc-relay/cdc-relay/wal"
)

// ProtocolError says that the stream isn't what protocol 1 allows: damaged bytes, a
// message out of place, or one of a kind that was not asked for. Nothing that follows
// it can be trusted; a new stream from the stored position reads the same again.
type ProtocolError struct {
	Letter byte    // of the message; 0 where it has none
	Offset int     // in the message, in bytes, where reading stopped; the letter is byte 0
	Commit wal.LSN // of the transaction it came in; 0 outside
	What   string
	Hint   string
}

func (e *ProtocolError) Error() string {
	var b strings.Builder
	b.WriteString("decode pgoutput message")
	if e.Letter != 0 {
		fmt.Fprintf(&b, " %q", rune(e.Letter))
		if name := letterName(e.Letter); name != "" {
			b.WriteString(" (" + name + ")")
		}
		fmt.Fprintf(&b, " at byte %d", e.Offset)
	}
	if e.Commit != 0 {
		b.WriteString(" in the transaction that commits at " + e.Commit.String())
	}
	b.WriteString(": " + e.What)
	if e.Hint != "" {
		b.WriteString(" (" + e.Hint + ")")
	}
	return b.String()
}

const (
	hintDamaged = "the stream is stopped before it and nothing behind it is confirmed; if it comes " +
		"again after a reconnect, look for a proxy that alters the stream, or report it with the server's version"
	hintVersion = "this program asks for proto_version 1, without streaming, two_phase and binary; " +
		"look for a proxy that alters the options"
)

// letterName names the messages of all protocol versions, so that an error about one that
// protocol 1 doesn't have can say what it is.
func letterName(letter byte) string {
	switch letter {
	case 'B':
		return "begin"
	case 'C':
		return "commit"
	case 'R':
		return "relation"
	case 'Y':
		return "type"
	case 'O':
		return "origin"
	case 'I':
		return "insert"
	case 'U':
		return "update"
	case 'D':
		return "delete"
	case 'T':
		return "truncate"
	case 'M':
		return "message"
	}
	return laterLetterName(letter)
}

// laterLetterName names the messages that came with protocol 2 (streaming) and 3 (two-phase).
func laterLetterName(letter byte) string {
	switch letter {
	case 'S':
		return "stream start"
	case 'E':
		return "stream stop"
	case 'c':
		return "stream commit"
	case 'A':
		return "stream abort"
	case 'b':
		return "begin prepare"
	case 'P':
		return "prepare"
	case 'K':
		return "commit prepared"
	case 'r':
		return "rollback prepared"
	case 'p':
		return "stream prepare"
	}
	return ""
}
