package relay

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/cdc-relay/cdc-relay/checkpoint"
	"github.com/cdc-relay/cdc-relay/wal"
	"github.com/cdc-relay/cdc-relay/wal/waltest"
)

// streamed opens real streams, whose memory is used again, in place of the scripted sources.
type streamed struct {
	*origins
	server *waltest.Server
}

func (o *streamed) Open(ctx context.Context) (Source, Origin, error) {
	_, origin, err := o.origins.Open(ctx)
	if err != nil {
		return nil, origin, err
	}
	s, err := wal.Open(ctx, wal.Config{Conn: o.server.Config(), Slot: "s", Publication: "p", Log: zerolog.Nop()})
	return s, origin, err
}

// The stream uses a batch's memory again once it was given back. Given back too early, or twice, a row
// comes out as one that was received after it, and is lost itself.
func TestBatchesAreGivenBackOnceAndAfterUse(t *testing.T) {
	const rows, end = 3000, wal.LSN(0x3000)
	pad := strings.Repeat("x", 400) // some 20 slabs in all
	frames := script(begin(0x2000), outbox)
	for i := range rows {
		row := order(strconv.Itoa(i), "a")
		row["payload"] = fmt.Sprintf(`{"n": %d, "pad": %q}`, i, pad)
		frames = append(frames, insert(1, row))
	}
	frames = append(frames, commit(0x2000, end))
	var sent []byte
	for _, f := range frames {
		sent = append(sent, waltest.CopyData(waltest.DataPayload(0x2000, committed, string(f.Data)))...)
	}
	synctest.Test(t, func(t *testing.T) {
		server := waltest.Serve(t, func(c *waltest.Conn) {
			c.Start(waltest.Source{
				System:        wal.System{ID: "7", Timeline: 1, Flushed: 0x1000, Database: "app", Version: 150018},
				SenderTimeout: time.Minute,
			})
			if err := c.TryWrite(sent); err != nil {
				return // the relay gave up, and the test says why
			}
			c.Gone()
		})
		b := rig(t, func(c *Config) {
			c.Limits = checkpoint.Limits{Events: 10, Bytes: 1 << 20} // the stream is ahead of the pump
			c.Drain = time.Second
		}, &source{})
		b.store.set(0x1000)
		b.Relay.cfg.Origins = &streamed{b.origins, server}
		b.run(t)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := b.store.at(); got != end {
			t.Errorf("stored %s, want %s, the end of the transaction; the relay is %+v", got, end, b.Status())
		}
		if err := b.end(); err != nil && !errors.Is(err, errDrain) {
			t.Errorf("stop: %v", err)
		}
		wrong := 0
		published := map[string]bool{}
		for p := range int32(12) {
			for _, r := range b.recorder.Published("orders", p) {
				published[string(r.Value)] = true
			}
		}
		for i := range rows {
			if !published[fmt.Sprintf(`{"n": %d, "pad": %q}`, i, pad)] {
				wrong++
			}
		}
		if wrong > 0 {
			t.Errorf("of %d rows %d were not published as they are", rows, wrong)
		}
	})
}
