package wal_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cdc-relay/cdc-relay/wal"
	"github.com/cdc-relay/cdc-relay/wal/waltest"
)

// The server is told what is stored, or where the stream started: never what was received,
// whatever came by.
func TestStatusConfirmsOnlyWhatIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		step := make(chan wal.LSN)
		server := waltest.Serve(t, func(c *waltest.Conn) {
			c.Start(source())
			checkStatus(t, c.Status(), begin) // at once, and not 0
			c.Keepalive(0x3000, false)
			c.Data(0x4000, "B")
			c.Data(0x4100, "I")
			c.Data(0x4200, "C")
			c.Keepalive(0x5000, false)
			for range 2 {
				checkStatus(t, c.Status(), begin)
				c.Keepalive(0x5000, false)
			}
			for want := range step {
				checkStatus(t, c.Status(), want)
				c.Keepalive(0x5000, false)
				step <- 0
			}
			c.Finish()
		})
		r := stream(t, config(server), 100)
		time.Sleep(25 * time.Second)
		for _, s := range []struct{ stored, want wal.LSN }{
			{0x4200, 0x4200}, // exactly
			{0x5000, 0x5000}, // up to what was named
			{0x4200, 0x5000}, // never back
			{0, 0x5000},
		} {
			r.stored.set(s.stored)
			step <- s.want
			<-step
		}
		close(step)
		r.stop()
	})
}

func TestStatusAheadOfTheServerIsFatal(t *testing.T) {
	for name, stored := range map[string]wal.LSN{"by one": 0x3001, "by all": maxLSN} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := waltest.Serve(t, func(c *waltest.Conn) {
					c.Start(source())
					checkStatus(t, c.Status(), begin)
					c.Keepalive(0x3000, false)
					if more := c.Gone(); len(more) > 0 {
						t.Errorf("statuses after the mistake: %+v", more)
					}
				})
				r := stream(t, config(server), 100)
				synctest.Wait()
				r.stored.set(stored)
				if err := r.err(); !errors.Is(err, wal.ErrAhead) {
					t.Errorf("error: %v", err)
				}
			})
		})
	}
}

// The position that a stop finds is checked too.
func TestLastStatusAheadOfTheServerIsFatal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := waltest.Serve(t, func(c *waltest.Conn) {
			c.Start(source())
			c.Status()
			if more := c.Gone(); len(more) > 0 {
				t.Errorf("statuses after the mistake: %+v", more)
			}
		})
		r := stream(t, config(server), 100)
		synctest.Wait()
		r.stored.set(flushed + 1)
		r.cancel()
		if err := r.err(); !errors.Is(err, wal.ErrAhead) {
			t.Errorf("error: %v", err)
		}
	})
}

func TestStatusInterval(t *testing.T) {
	for name, c := range map[string]struct{ timeout, override, want time.Duration }{
		"default of Postgres": {timeout: time.Minute, want: 10 * time.Second},
		"short":               {timeout: 6 * time.Second, want: time.Second},
		"long":                {timeout: time.Hour, want: 10 * time.Second},
		"off":                 {timeout: 0, want: 10 * time.Second},
		"tiny":                {timeout: time.Millisecond, want: time.Millisecond},
		"configured":          {timeout: time.Minute, override: 3 * time.Second, want: 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := waltest.Serve(t, func(conn *waltest.Conn) {
					src := source()
					src.SenderTimeout = c.timeout
					conn.Start(src)
					last := conn.Status()
					for range 5 {
						conn.Keepalive(flushed, false) // the answer
						st := conn.Status()
						if got := st.At.Sub(last.At); got != c.want {
							t.Errorf("%v between statuses, want %v", got, c.want)
						}
						if !st.Reply {
							t.Error("a status on the timer doesn't ask for a reply")
						}
						last = st
					}
					conn.Finish()
				})
				cfg := config(server)
				cfg.StatusInterval = c.override
				r := stream(t, cfg, 100)
				time.Sleep(5*c.want + c.want/2)
				r.stop()
			})
		})
	}
}

// A server that waits for a position asks again as soon as it is answered.
func TestRepliesAreSpaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := waltest.Serve(t, func(c *waltest.Conn) {
			c.Start(source())
			c.Status()
			time.Sleep(time.Second)
			asked := time.Now()
			for range 50 {
				c.Keepalive(flushed, true)
			}
			first := c.Status()
			if first.At != asked {
				t.Errorf("the first answer came after %v", first.At.Sub(asked))
			}
			for last := first; last.At.Sub(asked) < 9*time.Second; {
				c.Keepalive(flushed, true)
				st := c.Status()
				if gap := st.At.Sub(last.At); gap != 100*time.Millisecond {
					t.Errorf("%v between answers", gap)
				}
				if st.Reply {
					t.Error("an answer asks back")
				}
				last = st
			}
			c.Finish()
		})
		r := stream(t, config(server), 0)
		go r.rest()
		time.Sleep(10*time.Second + 50*time.Millisecond)
		r.cancel()
		if err := r.err(); err != nil {
			t.Error(err)
		}
	})
}

// Answers are no substitute for the timer: it goes on, counted from the last of them.
func TestTimerGoesOnAfterAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := waltest.Serve(t, func(c *waltest.Conn) {
			c.Start(source())
			c.Status()
			time.Sleep(7 * time.Second)
			c.Keepalive(flushed, true)
			answer, next := c.Status(), c.Status()
			if gap := next.At.Sub(answer.At); gap != 10*time.Second || !next.Reply {
				t.Errorf("status %v after the answer, reply asked: %v", gap, next.Reply)
			}
			c.Finish()
		})
		r := stream(t, config(server), 10)
		time.Sleep(18 * time.Second)
		r.stop()
	})
}

// Nobody takes the batches: statuses go on as if nothing were the matter, and so does the
// connection, however long it lasts.
func TestStatusWhileBlocked(t *testing.T) {
	const blocked = 5*time.Minute + 5*time.Second
	synctest.Test(t, func(t *testing.T) {
		server := waltest.Serve(t, func(c *waltest.Conn) {
			c.Start(source())
			c.Status()
			c.Data(0x3000, "first")
			c.Write(waltest.CopyData(waltest.DataPayload(0x3100, time.Now(), "second"))) // waits in the pipe
			statuses := c.Statuses()
			if want := int(blocked / (10 * time.Second)); len(statuses) != want {
				t.Errorf("%d statuses in %v, want %d", len(statuses), blocked, want)
			}
			for i, st := range statuses {
				checkStatus(t, st, wal.LSN(0x3000))
				if i > 0 && st.At.Sub(statuses[i-1].At) != 10*time.Second {
					t.Errorf("status %d came %v after the one before", i, st.At.Sub(statuses[i-1].At))
				}
			}
			c.Finish()
		})
		r := stream(t, config(server), 0)
		synctest.Wait()
		r.stored.set(0x3000)
		time.Sleep(blocked)
		got := append(r.take(), r.take()...)
		if want := []string{"first 0/3000", "second 0/3100"}; !slices.Equal(got, want) {
			t.Errorf("frames %q, want %q", got, want)
		}
		synctest.Wait() // for the server to have counted
		r.stop()
	})
}

func TestReplyWhileBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := waltest.Serve(t, func(c *waltest.Conn) {
			c.Start(source())
			c.Status()
			time.Sleep(time.Second)
			asked := time.Now()
			c.Keepalive(0x3000, true) // in the batch that blocks
			if st := c.Status(); st.At != asked {
				t.Errorf("answered after %v", st.At.Sub(asked))
			}
			c.Finish()
		})
		r := stream(t, config(server), 0)
		time.Sleep(2 * time.Second)
		r.stop()
	})
}
