package wal

import (
	"context"
	"fmt"
	"strconv"
)

// Query sends SQL or a replication command on this connection, by the simple protocol and
// before Start, and returns the rows of its last statement as text, nil for NULL.
func (s *Stream) Query(ctx context.Context, sql string) ([][]*string, error) {
	results, err := s.conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("query %q: %w", abridged(sql), serverError(err))
	}
	if len(results) == 0 {
		return nil, nil
	}
	last := results[len(results)-1]
	rows := make([][]*string, len(last.Rows))
	for i, values := range last.Rows {
		rows[i] = make([]*string, len(values))
		for j, v := range values {
			if v != nil {
				text := string(v)
				rows[i][j] = &text
			}
		}
	}
	return rows, nil
}

// abridged keeps errors readable.
func abridged(sql string) string {
	const most = 120
	if len(sql) <= most {
		return sql
	}
	return sql[:most] + "..."
}

// only returns the one row that a command of at least so many columns answers with; nil, which
// fields reports, where the answer is another.
func only(rows [][]*string, columns int) []*string {
	if len(rows) != 1 || len(rows[0]) < columns {
		return nil
	}
	return rows[0]
}

// fields reads the columns of a row and remembers the first that is not what it should be. NULL
// reads as zero.
type fields struct {
	row []*string
	err error
}

func (f *fields) text(i int) string {
	if i >= len(f.row) {
		f.fail(fmt.Errorf("answer has no column %d", i+1))
		return ""
	}
	if f.row[i] == nil {
		return ""
	}
	return *f.row[i]
}

func (f *fields) number(i int) int64 {
	text := f.text(i)
	if text == "" {
		return 0
	}
	v, err := strconv.ParseInt(text, 10, 64)
	f.fail(err)
	return v
}

func (f *fields) lsn(i int) LSN {
	text := f.text(i)
	if text == "" {
		return 0
	}
	v, err := ParseLSN(text)
	f.fail(err)
	return v
}

func (f *fields) bool(i int) bool { return f.text(i) == "t" }

func (f *fields) fail(err error) {
	if f.err == nil {
		f.err = err
	}
}
