package wal

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// versionMin is the first Postgres whose pgoutput sends logical messages: 14.
const versionMin = 140000

// System says who a server is and where it stands.
type System struct {
	ID       string // system identifier, made by initdb
	Timeline int32
	Flushed  LSN // up to here the log is on the server's disk
	Database string
	Version  int // server_version_num: 150018 is 15.18
}

// FailoverSlots tells whether the server can hand a slot to its standbys.
func (s System) FailoverSlots() bool { return s.Version >= versionFailoverSlots }

// TimelineSwitch says that the history left a timeline at an LSN: what lies before Switch was
// written on that timeline or an earlier one.
type TimelineSwitch struct {
	Timeline int32
	Switch   LSN
}

// measure reads what this package itself must know about the server.
func (s *Stream) measure(ctx context.Context) error {
	rows, err := s.Query(ctx, `SELECT pg_catalog.current_setting('server_version_num'),`+
		` (SELECT setting FROM pg_catalog.pg_settings WHERE name = 'wal_sender_timeout')`)
	if err != nil {
		return err
	}
	f := fields{row: only(rows, 2)}
	s.system.Version = int(f.number(0))
	s.sender = time.Duration(f.number(1)) * time.Millisecond
	if f.err != nil {
		return fmt.Errorf("read server settings: %w", f.err)
	}
	if s.system.Version < versionMin {
		return fmt.Errorf("%w: its version is %d, and Postgres 14 or later is needed", ErrServerTooOld, s.system.Version)
	}
	return nil
}

// Identify asks the server again who it is and how far its log is flushed.
func (s *Stream) Identify(ctx context.Context) (System, error) {
	rows, err := s.Query(ctx, "IDENTIFY_SYSTEM")
	if err != nil {
		return System{}, err
	}
	f := fields{row: only(rows, 4)}
	sys := System{ID: f.text(0), Timeline: int32(f.number(1)), Flushed: f.lsn(2), Database: f.text(3), Version: s.system.Version}
	if f.err != nil {
		return System{}, fmt.Errorf("IDENTIFY_SYSTEM: %w", f.err)
	}
	s.system = sys
	s.named(sys.Flushed)
	return sys, nil
}

// TimelineHistory returns the switches that led to a timeline, oldest first. Timeline 1 has none.
func (s *Stream) TimelineHistory(ctx context.Context, timeline int32) ([]TimelineSwitch, error) {
	if timeline == 1 {
		return nil, nil // there is no file to ask for
	}
	rows, err := s.Query(ctx, fmt.Sprintf("TIMELINE_HISTORY %d", timeline))
	if err != nil {
		return nil, err
	}
	f := fields{row: only(rows, 2)}
	content := f.text(1)
	if f.err != nil {
		return nil, fmt.Errorf("TIMELINE_HISTORY %d: %w", timeline, f.err)
	}
	switches, err := parseHistory([]byte(content))
	if err != nil {
		return nil, fmt.Errorf("TIMELINE_HISTORY %d: %w", timeline, err)
	}
	return switches, nil
}

// parseHistory reads a history file as timeline.c of Postgres does: timeline, LSN and a free
// text on each line, comments behind a number sign.
func parseHistory(content []byte) ([]TimelineSwitch, error) {
	var switches []TimelineSwitch
	lines := bufio.NewScanner(bytes.NewReader(content))
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if len(words) < 2 {
			return nil, fmt.Errorf("line %q has no LSN", lines.Text())
		}
		timeline, err := strconv.ParseInt(words[0], 10, 32)
		if err != nil {
			return nil, fmt.Errorf("line %q: %w", lines.Text(), err)
		}
		lsn, err := ParseLSN(words[1])
		if err != nil {
			return nil, fmt.Errorf("line %q: %w", lines.Text(), err)
		}
		switches = append(switches, TimelineSwitch{Timeline: int32(timeline), Switch: lsn})
	}
	return switches, lines.Err()
}
