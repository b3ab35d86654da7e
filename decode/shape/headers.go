package shape

import (
	"errors"
	"slices"
	"strconv"
)

// rowHeader is a header of the row's own: its name lies in the Shape's names, its value in
// its buffer.
type rowHeader struct {
	name, value span
}

// rowPrefix is set before the names of a row's headers that are reserved.
const rowPrefix = "row-"

// rowHeaders appends the members of the row's headers object, in its order: strings as
// their text, null as null, anything else as its JSON text. A repeated name is a repeated
// header, which Kafka allows.
func (s *Shape) rowHeaders(r row) error {
	v := r.at(r.l.headers)
	if v.Null {
		return nil
	}
	s.json.b, s.json.i = v.Text, 0
	if err := s.members(); err != nil {
		cause := err.Error()
		if !errors.Is(err, errNotObject) {
			cause += ", at byte " + strconv.Itoa(s.json.i)
		}
		return s.reject(colHeaders, cause, "headers are one JSON object of names and texts")
	}
	return nil
}

func (s *Shape) members() error {
	j := &s.json
	if !j.next('{') {
		return errNotObject
	}
	for more := !j.next('}'); more; more = !j.next('}') {
		if len(s.rows) > 0 && !j.next(',') {
			return errSyntax
		}
		if err := s.member(); err != nil {
			return err
		}
	}
	if j.space(); j.i < len(j.b) {
		return errSyntax
	}
	return nil
}

func (s *Shape) member() (err error) {
	j := &s.json
	from := len(s.names)
	if s.names, err = j.text(s.names); err != nil {
		return err
	}
	if reserved(s.names[from:]) {
		s.names = slices.Insert(s.names, from, []byte(rowPrefix)...)
	}
	h := rowHeader{name: since(s.names, from)}
	if !j.next(':') {
		return errSyntax
	}
	j.space()
	start := len(s.buf)
	if j.peek() == '"' {
		if s.buf, err = j.text(s.buf); err != nil {
			return err
		}
		h.value = since(s.buf, start)
	} else {
		raw := j.i
		if err := j.skip(); err != nil {
			return err
		}
		if text := j.b[raw:j.i]; string(text) != "null" {
			s.buf = append(s.buf, text...)
			h.value = since(s.buf, start)
		}
	}
	s.rows = append(s.rows, h)
	return nil
}
