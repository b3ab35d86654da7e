package wal_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/cdc-relay/cdc-relay/wal"
	"github.com/cdc-relay/cdc-relay/wal/waltest"
)

func TestSilence(t *testing.T) {
	for name, c := range map[string]struct {
		timeout, silence, interval time.Duration
		answers                    int // statuses that the server answers, every 10 s
		want                       time.Duration
	}{
		// While it decodes a large transaction of other tables, a healthy server is silent for
		// half its timeout (measured on Postgres 15).
		"default":                        {timeout: time.Minute, want: 40 * time.Second},
		"long timeout":                   {timeout: 2 * time.Minute, want: 70 * time.Second},
		"short timeout":                  {timeout: 12 * time.Second, want: 30 * time.Second},
		"timeout switched off":           {timeout: 0, want: 30 * time.Second},
		"after answers":                  {timeout: time.Minute, answers: 7, want: 40 * time.Second},
		"configured":                     {timeout: time.Minute, silence: 4 * time.Second, want: 4 * time.Second},
		"longer than the timer's period": {timeout: time.Minute, silence: 45 * time.Second, want: 45 * time.Second},
		"shorter than the timer":         {timeout: time.Minute, silence: time.Second, interval: time.Hour, want: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := waltest.Serve(t, func(conn *waltest.Conn) {
					src := source()
					src.SenderTimeout = c.timeout
					conn.Start(src)
					for range c.answers {
						conn.Status()
						conn.Keepalive(flushed, false)
					}
					conn.Gone()
				})
				cfg := config(server)
				cfg.Silence, cfg.StatusInterval = c.silence, c.interval
				began := time.Now()
				r := stream(t, cfg, 1)
				err := r.err()
				if !errors.Is(err, wal.ErrSilent) {
					t.Errorf("error: %v", err)
				}
				lived := time.Duration(max(0, c.answers-1)) * 10 * time.Second
				if took := time.Since(began); took != lived+c.want {
					t.Errorf("it took %v, want %v", took, lived+c.want)
				}
				if heard := time.Since(r.stream.LastHeard()); heard != c.want {
					t.Errorf("last heard %v ago, want %v", heard, c.want)
				}
				server.Wait() // the connection is closed
			})
		})
	}
}

// Time in which the consumer takes nothing doesn't count; but afterwards it does again.
func TestSilenceWhileBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := waltest.Serve(t, func(c *waltest.Conn) {
			c.Start(source())
			c.Data(0x3000, "C")
			c.Gone()
		})
		r := stream(t, config(server), 0)
		time.Sleep(time.Hour)
		select {
		case err := <-r.done:
			t.Fatalf("ended while blocked: %v", err)
		default:
		}
		r.take()
		resumed := time.Now()
		if err := r.err(); !errors.Is(err, wal.ErrSilent) {
			t.Errorf("error: %v", err)
		}
		if took := time.Since(resumed); took != 40*time.Second {
			t.Errorf("%v after it was taken", took)
		}
	})
}

// A server that reads nothing any more, so that no status can be sent, is given up as one that says
// nothing is.
func TestServerReadsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := waltest.Serve(t, func(c *waltest.Conn) {
			c.Until(source(), "START_REPLICATION")
			c.Write([]byte("W\x00\x00\x00\x07\x00\x00\x00")) // CopyBothResponse
			time.Sleep(10 * time.Minute)
		})
		began := time.Now()
		r := stream(t, config(server), 1)
		err := r.err()
		if !errors.Is(err, os.ErrDeadlineExceeded) || !strings.Contains(err.Error(), "send status") {
			t.Errorf("error: %v", err)
		}
		if took := time.Since(began); took != 40*time.Second {
			t.Errorf("it took %v, want 40s", took)
		}
	})
}

// What came before the end is handed on, the end is told apart, and nothing behind it gets
// through.
func TestServerEndsTheStream(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(c *waltest.Conn)
		is   error
		says string
	}{
		"shutdown":          {(*waltest.Conn).Shutdown, wal.ErrServerStopping, "ended the stream"},
		"terminated":        {func(c *waltest.Conn) { c.Error("FATAL", "57P01", "terminating connection") }, wal.ErrServerStopping, "57P01"},
		"crash":             {func(c *waltest.Conn) { c.Error("WARNING", "57P02", "crash of another") }, wal.ErrServerStopping, "57P02"},
		"no publication":    {func(c *waltest.Conn) { c.Error("ERROR", "42704", `publication "pub" does not exist`) }, wal.ErrPublicationMissing, `publication "pub"`},
		"publication, 18":   {func(c *waltest.Conn) { c.Notice("WARNING", "55000", `skipped loading publication "pub"`) }, wal.ErrPublicationMissing, "skipped loading"},
		"other error":       {func(c *waltest.Conn) { c.Error("ERROR", "XX000", "boom") }, nil, "boom (SQLSTATE XX000)"},
		"cut":               {(*waltest.Conn).Cut, io.EOF, "EOF"},
		"cut in a message":  {func(c *waltest.Conn) { c.Write([]byte{'d', 0, 0, 0, 99, 'w', 1, 2}); c.Cut() }, io.EOF, "EOF"},
		"unknown message":   {func(c *waltest.Conn) { c.Write([]byte{'?', 0, 0, 0, 4}) }, nil, "'?'"},
		"unknown payload":   {func(c *waltest.Conn) { c.Write(waltest.CopyData([]byte("s12345"))) }, nil, `"s"`},
		"empty payload":     {func(c *waltest.Conn) { c.Write(waltest.CopyData(nil)) }, nil, "empty"},
		"impossible length": {func(c *waltest.Conn) { c.Write([]byte{'d', 0, 0, 0, 3}) }, nil, "3 bytes"},
		"enormous length":   {func(c *waltest.Conn) { c.Write([]byte{'d', 0x40, 0, 0, 0}) }, nil, "1073741824 bytes"},
		"negative length":   {func(c *waltest.Conn) { c.Write([]byte{'d', 0xff, 0xff, 0xff, 0xff}) }, nil, "broken"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := waltest.Serve(t, func(conn *waltest.Conn) {
					conn.Start(source())
					conn.Status()
					conn.Data(0x3000, "before")
					c.end(conn)
					_ = conn.TryWrite(waltest.CopyData(waltest.DataPayload(0x4000, time.Now(), "behind")))
					conn.Gone()
				})
				r := stream(t, config(server), 0)
				if got := r.rest(); !slices.Equal(got, []string{"before 0/3000"}) {
					t.Errorf("frames: %q", got)
				}
				err := r.err()
				if err == nil || c.is != nil && !errors.Is(err, c.is) {
					t.Fatalf("error: %v", err)
				}
				for _, want := range []string{c.says, `slot "slot"`} {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("error %q doesn't say %q", err, want)
					}
				}
				server.Wait() // the connection is closed
				if c.is != wal.ErrServerStopping && errors.Is(err, wal.ErrServerStopping) {
					t.Errorf("%v passes for a stopping server", err)
				}
			})
		})
	}
}

// The end lies in one read with what comes before and behind it.
func TestEndInOneRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := waltest.Serve(t, func(c *waltest.Conn) {
			c.Start(source())
			msgs := waltest.CopyData(waltest.DataPayload(0x3000, time.Now(), "before"))
			msgs = append(msgs, "N\x00\x00\x00\x15SWARNING\x00C55000\x00\x00"...)
			msgs = append(msgs, waltest.CopyData(waltest.DataPayload(0x4000, time.Now(), "behind"))...)
			c.Write(msgs)
			c.Gone()
		})
		r := stream(t, config(server), 0)
		if got := r.rest(); !slices.Equal(got, []string{"before 0/3000"}) {
			t.Errorf("frames: %q", got)
		}
		if err := r.err(); !errors.Is(err, wal.ErrPublicationMissing) {
			t.Errorf("error: %v", err)
		}
	})
}

func TestOtherNoticesAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := waltest.Serve(t, func(c *waltest.Conn) {
			c.Start(source())
			c.Notice("WARNING", "01000", "take care")
			c.Write([]byte("S\x00\x00\x00\x0aa\x00b12\x00"))
			c.Data(0x3000, "on")
			c.Finish()
		})
		var log bytes.Buffer
		cfg := config(server)
		cfg.Log = zerolog.New(&log)
		r := stream(t, cfg, 1)
		if got := r.take(); !slices.Equal(got, []string{"on 0/3000"}) {
			t.Errorf("frames: %q", got)
		}
		r.stop()
		if !strings.Contains(log.String(), "take care") {
			t.Errorf("log: %s", log.String())
		}
	})
}
