package shape

import (
	"errors"
	"unicode/utf16"
	"unicode/utf8"
)

var (
	errNotObject = errors.New("is not a JSON object")
	errSyntax    = errors.New("is not valid JSON")
	errSurrogate = errors.New("has half of a surrogate pair, which is no text")
)

// scanner walks over JSON text and remembers where it stands. It is strict (RFC 8259), and
// needs no stack for nesting of any depth. encoding/json would reorder members, drop
// repeated ones, round numbers and allocate for each.
type scanner struct {
	b    []byte
	i    int
	nest []byte // the closing brackets that are owed
}

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

// peek returns the next byte, 0 at the end.
func (s *scanner) peek() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

// next skips spaces and c, and says whether c was there.
func (s *scanner) next(c byte) bool {
	s.space()
	if s.peek() != c || s.i >= len(s.b) {
		return false
	}
	s.i++
	return true
}

// text reads a string and appends what it means to dst.
func (s *scanner) text(dst []byte) ([]byte, error) {
	if !s.next('"') {
		return dst, errSyntax
	}
	for {
		start := s.i
		for s.i < len(s.b) && s.b[s.i] != '"' && s.b[s.i] != '\\' && s.b[s.i] >= ' ' {
			s.i++
		}
		dst = append(dst, s.b[start:s.i]...)
		switch s.peek() {
		case '"':
			s.i++
			return dst, nil
		case '\\':
			var err error
			if dst, err = s.escape(dst); err != nil {
				return dst, err
			}
		default: // the end, or a control character
			return dst, errSyntax
		}
	}
}

// escape reads one escape sequence, or two that are a surrogate pair.
func (s *scanner) escape(dst []byte) ([]byte, error) {
	s.i++
	c := s.peek()
	s.i++
	switch c {
	case '"', '\\', '/':
		return append(dst, c), nil
	case 'b':
		return append(dst, '\b'), nil
	case 'f':
		return append(dst, '\f'), nil
	case 'n':
		return append(dst, '\n'), nil
	case 'r':
		return append(dst, '\r'), nil
	case 't':
		return append(dst, '\t'), nil
	case 'u':
	default:
		return dst, errSyntax
	}
	r, ok := s.hex4()
	if !ok {
		return dst, errSyntax
	}
	if !utf16.IsSurrogate(r) {
		return utf8.AppendRune(dst, r), nil
	}
	if s.peek() != '\\' || s.i+1 >= len(s.b) || s.b[s.i+1] != 'u' {
		return dst, errSurrogate
	}
	s.i += 2
	low, ok := s.hex4()
	if !ok {
		return dst, errSyntax
	}
	if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
		return dst, errSurrogate
	}
	return utf8.AppendRune(dst, r), nil
}

func (s *scanner) hex4() (r rune, ok bool) {
	for range 4 {
		c := s.peek()
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
		s.i++
	}
	return r, true
}

// skip moves past one value and checks its syntax.
func (s *scanner) skip() error {
	s.nest = s.nest[:0]
	for {
		s.space()
		ok := true
		switch c := s.peek(); c {
		case '{', '[':
			s.i++
			s.nest = append(s.nest, c+2) // in ASCII, the closing bracket is two further
			if !s.next(c + 2) {
				if c == '{' && !s.skipName() {
					return errSyntax
				}
				continue
			}
			s.nest = s.nest[:len(s.nest)-1]
		case '"':
			ok = s.skipString()
		case 't':
			ok = s.literal("true")
		case 'f':
			ok = s.literal("false")
		case 'n':
			ok = s.literal("null")
		default:
			ok = s.number()
		}
		if !ok || !s.leave() {
			return errSyntax
		}
		if len(s.nest) == 0 {
			return nil
		}
	}
}

// leave moves past what may follow a value inside the value that is being skipped: closing
// brackets, and a comma before the next value. It stops at once outside of all brackets.
func (s *scanner) leave() bool {
	for len(s.nest) > 0 {
		closing := s.nest[len(s.nest)-1]
		switch {
		case s.next(closing):
			s.nest = s.nest[:len(s.nest)-1]
		case s.next(','):
			return closing != '}' || s.skipName()
		default:
			return false
		}
	}
	return true
}

func (s *scanner) skipName() bool { return s.skipString() && s.next(':') }

// skipString moves past a string. Half a surrogate pair is no error here, as the text is
// kept as it is.
func (s *scanner) skipString() bool {
	if !s.next('"') {
		return false
	}
	for s.i < len(s.b) {
		c := s.b[s.i]
		s.i++
		switch {
		case c == '"':
			return true
		case c < ' ':
			return false
		case c == '\\':
			c = s.peek()
			s.i++
			switch c {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				if _, ok := s.hex4(); !ok {
					return false
				}
			default:
				return false
			}
		}
	}
	return false
}

func (s *scanner) literal(l string) bool {
	if len(s.b)-s.i < len(l) || string(s.b[s.i:s.i+len(l)]) != l {
		return false
	}
	s.i += len(l)
	return true
}

func (s *scanner) digits() bool {
	start := s.i
	for c := s.peek(); c >= '0' && c <= '9'; c = s.peek() {
		s.i++
	}
	return s.i > start
}

func (s *scanner) number() bool {
	if s.peek() == '-' {
		s.i++
	}
	if s.peek() == '0' {
		s.i++
	} else if !s.digits() {
		return false
	}
	if s.peek() == '.' {
		s.i++
		if !s.digits() {
			return false
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.i++
		if c := s.peek(); c == '+' || c == '-' {
			s.i++
		}
		return s.digits()
	}
	return true
}
