package wal_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cdc-relay/cdc-relay/wal"
	"github.com/cdc-relay/cdc-relay/wal/waltest"
)

// The last status holds what was stored when the stop began, whenever the timer would have
// come, and what the server still sends is read until it has confirmed.
func TestStopIsDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := waltest.Serve(t, func(c *waltest.Conn) {
			c.Start(source())
			c.Status()
			c.Data(0x3000, "C")
			last := c.Leave()
			checkStatus(t, last, 0x3000)
			if last.Reply {
				t.Error("the last status asks for a reply that nobody waits for")
			}
			// In the middle of a transaction; also one message larger than any buffer, and cut up.
			big := waltest.CopyData(waltest.DataPayload(0x4000, time.Now(), strings.Repeat("x", 300_000)))
			big = append(big, waltest.CopyData(waltest.KeepalivePayload(0x5000, time.Now(), true))...)
			for len(big) > 0 {
				n := min(len(big), 1001)
				c.Write(big[:n])
				big = big[n:]
			}
			c.Notice("WARNING", "01000", "bye")
			time.Sleep(1900 * time.Millisecond)
			c.Drained()
		})
		r := stream(t, config(server), 100)
		r.take()
		r.stored.set(0x3000)
		r.cancel()
		if rest := r.rest(); len(rest) > 0 {
			t.Errorf("frames after the stop: %q", rest)
		}
		if err := r.err(); err != nil {
			t.Errorf("stop: %v", err)
		}
		if err := r.stream.Close(); err != nil {
			t.Errorf("close after the stop: %v", err)
		}
	})
}

func TestStopTakesLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := waltest.Serve(t, func(c *waltest.Conn) {
			c.Start(source())
			checkStatus(t, c.Finish(), begin)
		})
		r := stream(t, config(server), 100)
		synctest.Wait()
		r.stop()
		server.Wait()
	})
}

// A context that has ended before Run still leaves the server a status.
func TestStopBeforeRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := waltest.Serve(t, func(c *waltest.Conn) {
			c.Start(source())
			checkStatus(t, c.Finish(), 0x1800)
		})
		s, err := wal.Open(t.Context(), config(server))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Start(t.Context(), begin); err != nil {
			t.Fatal(err)
		}
		r := &session{stored: storedAt(0x1800), out: make(chan *wal.Batch)}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Run(ctx, r.stored, r.out); err != nil {
			t.Error(err)
		}
		if _, open := <-r.out; open {
			t.Error("the channel is open")
		}
	})
}

func TestStopWhileBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := waltest.Serve(t, func(c *waltest.Conn) {
			c.Start(source())
			c.Data(0x3000, "C")
			checkStatus(t, c.Finish(), 0x2500)
		})
		r := stream(t, config(server), 0)
		synctest.Wait()
		r.stored.set(0x2500)
		r.cancel()
		if err := r.err(); err != nil { // nobody takes the batch
			t.Errorf("stop: %v", err)
		}
		if rest := r.rest(); len(rest) > 0 {
			t.Errorf("frames after the stop: %q", rest)
		}
	})
}

func TestStopIsNotDrained(t *testing.T) {
	for name, c := range map[string]struct {
		drain  func() time.Duration
		answer func(c *waltest.Conn)
		after  time.Duration
		says   string
	}{
		"default":     {nil, func(*waltest.Conn) {}, 2 * time.Second, "within 2s"},
		"too little":  {func() time.Duration { return -time.Second }, func(*waltest.Conn) {}, 2 * time.Second, "within 2s"},
		"as asked":    {func() time.Duration { return 7 * time.Second }, func(*waltest.Conn) {}, 7 * time.Second, "within 7s"},
		"busy server": {nil, func(c *waltest.Conn) { flood(c) }, 2 * time.Second, "within 2s"},
		"half done":   {nil, func(c *waltest.Conn) { c.Write([]byte{'c', 0, 0, 0, 4}) }, 2 * time.Second, "within 2s"},
		"cut":         {nil, func(c *waltest.Conn) { c.Cut() }, 0, "EOF"},
		"error":       {nil, func(c *waltest.Conn) { c.Error("FATAL", "57P01", "terminating") }, 0, "57P01"},
		"garbage":     {nil, func(c *waltest.Conn) { c.Write([]byte{'d', 0, 0, 0, 1, 0}) }, 0, "broken"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := waltest.Serve(t, func(conn *waltest.Conn) {
					conn.Start(source())
					conn.Leave()
					c.answer(conn)
					conn.Gone()
				})
				cfg := config(server)
				cfg.Drain = c.drain
				r := stream(t, cfg, 100)
				synctest.Wait()
				began := time.Now()
				r.cancel()
				err := r.err()
				if !errors.Is(err, wal.ErrNotDrained) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("error: %v", err)
				}
				if took := time.Since(began); took != c.after {
					t.Errorf("it took %v, want %v", took, c.after)
				}
			})
		})
	}
}

// flood sends data until the client is gone.
func flood(c *waltest.Conn) {
	msg := waltest.CopyData(waltest.DataPayload(0x3000, time.Now(), strings.Repeat("x", 100)))
	for c.TryWrite(msg) == nil {
		time.Sleep(time.Millisecond)
	}
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := waltest.Serve(t, func(c *waltest.Conn) {
			c.Start(source())
			c.Gone()
		})
		r := stream(t, config(server), 100)
		synctest.Wait()
		if err := r.stream.Close(); err != nil {
			t.Error(err)
		}
		if err := r.err(); err == nil || errors.Is(err, wal.ErrNotDrained) {
			t.Errorf("Run after Close: %v", err)
		}
		if _, open := <-r.out; open {
			t.Error("the channel is open")
		}
		if err := r.stream.Close(); err != nil {
			t.Errorf("second close: %v", err)
		}
	})
}
