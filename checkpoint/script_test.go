package checkpoint

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/wal"
)

// TestTrackerScripts runs testdata/*.txt, whose format testdata/README.txt explains.
func TestTrackerScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 7 {
		t.Fatalf("scripts: %v, %v", files, err)
	}
	for _, file := range files {
		if filepath.Base(file) == "README.txt" {
			continue
		}
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			f, err := os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			s := script{events: map[string]scriptEvent{}}
			in := bufio.NewScanner(f)
			for line := 1; in.Scan(); line++ {
				text, _, _ := strings.Cut(in.Text(), "#")
				words := strings.Fields(text)
				if len(words) == 0 {
					continue
				}
				if err := s.step(words[0], words[1:]); err != nil {
					t.Errorf("%s:%d: %s: %v", file, line, strings.Join(words, " "), err)
				}
			}
			if err := in.Err(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

type scriptEvent struct {
	ticket uint64
	bytes  int
}

type script struct {
	tr     *Tracker
	events map[string]scriptEvent
}

func (s *script) step(verb string, args []string) error {
	num := func(i int) int {
		if i >= len(args) {
			panic(fmt.Sprintf("%s: argument %d is missing", verb, i+1))
		}
		n, err := strconv.Atoi(args[i])
		if err != nil {
			panic(err)
		}
		return n
	}
	switch verb {
	case "start":
		s.tr = NewTracker(wal.LSN(num(0)), Limits{Events: num(2), Bytes: int64(num(4))})
	case "begin":
		s.tr.Begin(clock(args[0]))
	case "add", "full":
		ticket, ok := s.tr.Add(num(1))
		if ok != (verb == "add") {
			return fmt.Errorf("admitted: %v", ok)
		}
		s.events[args[0]] = scriptEvent{ticket, num(1)}
	case "seal":
		s.tr.Seal(wal.LSN(num(0)))
	case "idle":
		s.tr.Idle(wal.LSN(num(0)))
	case "ack":
		return s.ack(args)
	default:
		return s.expect(verb, args)
	}
	return s.tr.Err()
}

func (s *script) ack(names []string) error {
	var bytes int64
	for _, name := range names {
		e := s.events[name]
		if e.ticket != s.events[names[0]].ticket {
			return fmt.Errorf("%s is of another transaction than %s", name, names[0])
		}
		bytes += int64(e.bytes)
	}
	s.tr.Ack(s.events[names[0]].ticket, len(names), bytes)
	return s.tr.Err()
}

func (s *script) expect(verb string, args []string) error {
	var got string
	switch verb {
	case "confirmed":
		got = strconv.Itoa(int(s.tr.Confirmed()))
	case "done":
		_, events := s.tr.Progress()
		got = strconv.Itoa(int(events))
	case "inflight":
		events, bytes := s.tr.InFlight()
		got = fmt.Sprint(events, " ", bytes)
	case "oldest":
		got = "none"
		if at, ok := s.tr.Oldest(); ok {
			got = at.Format(time.TimeOnly)
		}
	case "room":
		got = "no"
		select {
		case <-s.tr.Room():
			got = "yes"
		default:
		}
	default:
		return fmt.Errorf("no such step")
	}
	if want := strings.Join(args, " "); got != want {
		return fmt.Errorf("got %s", got)
	}
	return nil
}

func clock(s string) time.Time {
	at, err := time.Parse(time.TimeOnly, s)
	if err != nil {
		panic(err)
	}
	return at.AddDate(2024, 0, 0)
}
