package wal_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/wal"
	"github.com/cdc-relay/cdc-relay/wal/waltest"
)

// rows is a piece of a stream: so many messages, numbered by their LSN from first on.
func rows(first, n int) (msgs []byte) {
	at := time.Now()
	for i := range n {
		msgs = append(msgs, waltest.CopyData(waltest.DataPayload(wal.LSN(first+i), at, "I"+strings.Repeat("x", 300)))...)
	}
	return msgs
}

// count takes batches until one holds the frame with the LSN last, checks that none is missing,
// and returns the number of the next.
func count(t testing.TB, r *session, next, last int) int {
	t.Helper()
	for next <= last {
		b, ok := <-r.out
		if !ok {
			t.Fatalf("ended before %d: %v", next, r.err())
		}
		for _, f := range b.Frames {
			if f.End != wal.LSN(next) || len(f.Data) != 301 || f.Data[0] != 'I' || f.Data[300] != 'x' {
				t.Fatalf("frame %v with %d bytes, want %d", f.End, len(f.Data), next)
			}
			next++
		}
		b.Release()
	}
	return next
}

func certificate(t testing.TB) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
}

// Under TLS as without: everything in order, read deadlines that pass (statuses on the timer)
// leave the connection usable, whatever the sizes of writes, and load or no load.
func TestNetwork(t *testing.T) {
	for _, version := range []uint16{0, tls.VersionTLS12, tls.VersionTLS13} {
		t.Run(fmt.Sprintf("TLS %x", version), func(t *testing.T) {
			const n = 20_000
			server := waltest.Listen(t, func(c *waltest.Conn) {
				c.Start(source())
				for range 3 { // on the timer, while nothing is sent
					c.Status()
				}
				msgs := rows(1, n)
				for size := 1; len(msgs) > 0; size = size*5/4 + 1 {
					k := min(size, len(msgs), 100_000)
					c.Write(msgs[:k])
					msgs = msgs[k:]
				}
				for range 3 {
					c.Status()
				}
				c.Write(rows(n+1, 1))
				c.Finish()
			})
			if version != 0 {
				secure := certificate(t)
				secure.MinVersion, secure.MaxVersion = version, version
				server.SetTLS(secure)
			}
			cfg := config(server)
			cfg.StatusInterval = 5 * time.Millisecond
			r := stream(t, cfg, 1)
			count(t, r, 1, n+1)
			r.stop()
			if err := r.stream.Close(); err != nil {
				t.Errorf("close what Run has closed: %v", err)
			}
		})
	}
}

// load runs a stream of n messages that are sent as Postgres does it, some rows per write.
func load(t testing.TB, n int, secure *tls.Config) *session {
	const perWrite = 5
	server := waltest.Listen(t, func(c *waltest.Conn) {
		c.Start(source())
		msgs := rows(0, perWrite)
		size := len(msgs) / perWrite
		for i := 0; i < n; i += perWrite {
			for j := range perWrite { // renumber in place
				for k, v := 0, i+j+1; k < 8; k, v = k+1, v>>8 {
					msgs[j*size+5+8-k] = byte(v)
				}
			}
			c.Write(msgs)
		}
		c.Finish()
	})
	server.SetTLS(secure)
	return stream(t, config(server), 4)
}

func TestRunAllocatesNothing(t *testing.T) {
	const n, warm = 200_000, 50_000
	r := load(t, n, nil)
	next := count(t, r, 1, warm)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	count(t, r, next, n)
	runtime.ReadMemStats(&after)
	r.stop()
	// Timers and other goroutines may take a few; one per batch would be thousands.
	if got := after.Mallocs - before.Mallocs; got > 100 {
		t.Errorf("%d allocations for %d messages", got, n-warm)
	}
}

// One operation is one message, from the server's write to the release of its batch.
func BenchmarkRun(b *testing.B) {
	for name, secure := range map[string]*tls.Config{"plain": nil, "TLS": certificate(b)} {
		b.Run(name, func(b *testing.B) {
			const perWrite = 5
			r := load(b, (b.N+perWrite-1)/perWrite*perWrite, secure)
			b.SetBytes(int64(len(rows(1, 1))))
			b.ReportAllocs()
			b.ResetTimer()
			count(b, r, 1, b.N)
			b.StopTimer()
			r.stop()
		})
	}
}
