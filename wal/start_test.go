package wal_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cdc-relay/cdc-relay/wal"
	"github.com/cdc-relay/cdc-relay/wal/waltest"
)

func TestOpenPinsParameters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := waltest.Serve(t, func(c *waltest.Conn) {
			got := c.Accept()
			for name, want := range map[string]string{
				"replication": "database", "client_encoding": "UTF8", "DateStyle": "ISO, YMD", "TimeZone": "UTC", "IntervalStyle": "postgres",
				"bytea_output": "hex", "extra_float_digits": "3", "client_min_messages": "warning", "application_name": "mine", "work_mem": "1MB",
			} {
				if got[name] != want {
					t.Errorf("%s is %q, want %q", name, got[name], want)
				}
			}
			for name := range got {
				if name == "timezone" || name == "BYTEA_OUTPUT" {
					t.Errorf("%s is sent beside what is pinned", name)
				}
			}
			c.Answer(source(), "SELECT 1")
			c.Rows([][]string{{"1"}})
		})
		cfg := config(server)
		cfg.Conn.RuntimeParams["TimeZone"] = "Asia/Kolkata"
		cfg.Conn.RuntimeParams["timezone"] = "Asia/Kolkata" // as PGTZ makes it; names are folded by the server
		cfg.Conn.RuntimeParams["BYTEA_OUTPUT"] = "escape"
		cfg.Conn.RuntimeParams["application_name"] = "mine"
		cfg.Conn.RuntimeParams["work_mem"] = "1MB"
		s, err := wal.Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if cfg.Conn.RuntimeParams["TimeZone"] != "Asia/Kolkata" {
			t.Error("the caller's settings were changed")
		}
		if rows, err := s.Query(t.Context(), "SELECT 1"); err != nil || len(rows) != 1 || *rows[0][0] != "1" {
			t.Errorf("query: %v, %v", rows, err)
		}
		if got := s.System(); got != source().System {
			t.Errorf("system: %+v", got)
		}
		if s.Received() != flushed {
			t.Errorf("received: %v", s.Received())
		}
	})
}

func TestOpenFails(t *testing.T) {
	answers := func(rows ...[]string) func(*waltest.Conn) {
		return func(c *waltest.Conn) {
			c.Accept()
			c.AnswerAll(waltest.Source{Answer: func(string) ([][]string, bool) { return rows, true }})
		}
	}
	for name, c := range map[string]struct {
		script func(*waltest.Conn)
		is     error
		says   string
	}{
		"too old":        {answers([]string{"130018", "60000"}), wal.ErrServerTooOld, "Postgres 14"},
		"odd settings":   {answers([]string{"x", "y"}), nil, "server settings"},
		"no settings":    {answers(), nil, "no column"},
		"odd identity":   {answers([]string{"150018", "60000"}), nil, "IDENTIFY_SYSTEM"},
		"starting up":    {func(c *waltest.Conn) { c.Deny("57P03", "the database system is starting up") }, wal.ErrServerStopping, "starting up"},
		"pooler":         {func(c *waltest.Conn) { c.Deny("08P01", "unsupported startup parameter: replication") }, nil, "directly to the server"},
		"wrong password": {func(c *waltest.Conn) { c.Deny("28P01", "password authentication failed") }, nil, "28P01"},
		"stopping": {func(c *waltest.Conn) {
			c.Until(source(), "IDENTIFY_SYSTEM")
			c.Error("FATAL", "57P01", "terminating")
		}, wal.ErrServerStopping, "57P01"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := waltest.Serve(t, c.script)
				_, err := wal.Open(t.Context(), config(server))
				if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
					t.Fatalf("error: %v", err)
				}
				if strings.Contains(err.Error(), "secret") {
					t.Errorf("error %q holds the password", err)
				}
			})
		})
	}
	if _, err := wal.Open(t.Context(), wal.Config{}); err == nil {
		t.Error("no settings are no error")
	}
}

func TestStartCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := waltest.Serve(t, func(c *waltest.Conn) {
			const want = `START_REPLICATION SLOT "1slot" LOGICAL 0/1000 (proto_version '1', publication_names '"It''s ""mine"""', messages 'true')`
			if got := c.Start(source()); got != want {
				t.Errorf("command %s\nwant    %s", got, want)
			}
			c.Finish()
		})
		cfg := config(server)
		cfg.Slot, cfg.Publication = "1slot", `It's "mine"`
		stream(t, cfg, 1).stop()
	})
}

func open(t *testing.T, cfg wal.Config) *wal.Stream {
	t.Helper()
	s, err := wal.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// What can't be right is refused before the server sees it; the connection stays usable.
func TestStartRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		start wal.LSN
		cfg   func(*wal.Config)
		is    error
	}{
		"zero":           {0, func(*wal.Config) {}, nil},
		"ahead":          {flushed + 1, func(*wal.Config) {}, wal.ErrAhead},
		"far ahead":      {maxLSN, func(*wal.Config) {}, wal.ErrAhead},
		"no slot":        {begin, func(c *wal.Config) { c.Slot = "" }, nil},
		"no publication": {begin, func(c *wal.Config) { c.Publication = "" }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := waltest.Serve(t, func(conn *waltest.Conn) {
					conn.Accept()
					conn.AnswerAll(source()) // which has no answer to START_REPLICATION
				})
				cfg := config(server)
				c.cfg(&cfg)
				s := open(t, cfg)
				err := s.Start(t.Context(), c.start)
				if err == nil || c.is != nil && !errors.Is(err, c.is) {
					t.Fatalf("error: %v", err)
				}
				if _, err := s.Identify(t.Context()); err != nil {
					t.Errorf("the connection is of no use: %v", err)
				}
				out := make(chan *wal.Batch)
				if err := s.Run(t.Context(), storedAt(0), out); err == nil {
					t.Error("it runs all the same")
				}
				if _, open := <-out; open {
					t.Error("the channel is open")
				}
			})
		})
	}
}

// The log has grown since Open.
func TestStartAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := waltest.Serve(t, func(c *waltest.Conn) {
			src := source()
			src.System.Flushed = begin - 1
			c.Until(src, "IDENTIFY_SYSTEM")
			c.Rows([][]string{{"7", "1", (begin - 1).String(), "app"}})
			c.Answer(src, "IDENTIFY_SYSTEM")
			c.Rows([][]string{{"7", "1", begin.String(), "app"}})
			c.Answer(source(), "START_REPLICATION")
			c.CopyBoth()
			c.Finish()
		})
		stream(t, config(server), 1).stop()
	})
}

func TestStartIsRefused(t *testing.T) {
	lost := wal.SlotInfo{Name: "slot", WALStatus: "lost"}
	for name, c := range map[string]struct {
		code, text string
		slots      []wal.SlotInfo
		is         error
		active     bool
		pid        int32
	}{
		"missing":              {"42704", `replication slot "slot" does not exist`, nil, wal.ErrSlotMissing, false, 0},
		"lost":                 {"55000", "cannot read from logical replication slot", []wal.SlotInfo{lost}, wal.ErrSlotLost, false, 0},
		"other database":       {"55000", "was not created in this database", []wal.SlotInfo{{Name: "slot", WALStatus: "reserved"}}, nil, false, 0},
		"active":               {"55006", `is active for PID 5`, []wal.SlotInfo{{Name: "slot", Active: true, ActivePID: 99}}, nil, true, 99},
		"active, just gone":    {"55006", `replication slot "slot1" is active for PID 55`, []wal.SlotInfo{{Name: "slot"}}, nil, true, 55},
		"active, in Russian":   {"55006", `слот репликации "slot1" занят процессом с PID 55`, nil, nil, true, 55},
		"active, without text": {"55006", "active", nil, nil, true, 0},
		"privilege":            {"42501", "permission denied", nil, nil, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := waltest.Serve(t, func(conn *waltest.Conn) {
					src := source()
					src.Slots = c.slots
					conn.Until(src, "START_REPLICATION")
					conn.Refuse(c.code, c.text)
					conn.AnswerAll(src)
				})
				s := open(t, config(server))
				err := s.Start(t.Context(), begin)
				if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.text) {
					t.Fatalf("error: %v", err)
				}
				for _, other := range []error{wal.ErrSlotMissing, wal.ErrSlotLost, wal.ErrPublicationMissing, wal.ErrServerStopping} {
					if other != c.is && errors.Is(err, other) {
						t.Errorf("%v passes for %v", err, other)
					}
				}
				if pid, active := wal.IsSlotActive(fmt.Errorf("wrapped: %w", err)); pid != c.pid || active != c.active {
					t.Errorf("active: %v, %d; want %v, %d", active, pid, c.active, c.pid)
				}
				if _, err := s.Identify(t.Context()); err != nil {
					t.Errorf("the connection is of no use: %v", err)
				}
			})
		})
	}
}

func TestStartIsBoundedByItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := waltest.Serve(t, func(c *waltest.Conn) {
			c.Until(source(), "START_REPLICATION")
			c.AnswerAll(source()) // nothing comes but the end
		})
		s := open(t, config(server))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if err := s.Start(ctx, begin); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error: %v", err)
		}
		if _, err := s.Identify(t.Context()); err == nil {
			t.Error("a connection with an answer outstanding is used again")
		}
	})
}

func TestStartTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := waltest.Serve(t, func(c *waltest.Conn) {
			c.Start(source())
			c.Gone()
		})
		s := open(t, config(server))
		if err := s.Start(t.Context(), begin); err != nil {
			t.Fatal(err)
		}
		if err := s.Start(t.Context(), begin); err == nil {
			t.Error("no error")
		}
		s.Close()
	})
}

// What comes with the answer to START_REPLICATION isn't held back until more comes.
func TestFirstFramesComeAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := waltest.Serve(t, func(c *waltest.Conn) {
			c.Until(source(), "START_REPLICATION")
			c.CopyBoth(waltest.DataPayload(0x3000, time.Now(), "B"), waltest.KeepalivePayload(0x4000, time.Now(), true))
			checkStatus(t, c.Status(), begin)
			c.Finish()
		})
		began := time.Now()
		r := stream(t, config(server), 0)
		if got := r.take(); !slices.Equal(got, []string{"B 0/3000", "keepalive 0/4000"}) {
			t.Errorf("frames: %q", got)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("they came after %v", took)
		}
		if r.stream.Received() != 0x4000 {
			t.Errorf("received %v", r.stream.Received())
		}
		r.stop()
	})
}
