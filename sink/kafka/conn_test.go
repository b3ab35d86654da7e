package kafka

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// TestOldKafka: the oldest supported versions, and one in between.
func TestOldKafka(t *testing.T) {
	for _, v := range []struct {
		name     string
		versions *kversion.Versions
	}{{"2.5", kversion.V2_5_0()}, {"2.8", kversion.V2_8_0()}, {"3.6", kversion.V3_6_0()}} {
		t.Run(v.name, func(t *testing.T) {
			ctx := testContext(t)
			c := newCluster(t, kfake.NumBrokers(2), kfake.SeedTopics(4, "orders"), kfake.MaxVersions(v.versions))
			h := newRecorder(t)
			s := open(t, testConfig(t, c), h)
			if info, err := s.Topic(ctx, "orders"); err != nil || info.Partitions != 4 {
				t.Errorf("topic: %+v, %v", info, err)
			}
			steady(t, s, "orders", 4, 1000, nil)
			flush(t, ctx, s)
			checkLog(t, ctx, c.ListenAddrs(), "orders", 1000, nil)
		})
	}
}

func TestTLS(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)

	ctx := testContext(t)
	c := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(2, "orders"),
		kfake.TLS(&tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}))
	cfg := testConfig(t, c)
	cfg.TLS = &tls.Config{RootCAs: pool}
	s := open(t, cfg, newRecorder(t))
	steady(t, s, "orders", 2, 1000, nil)
	flush(t, ctx, s)

	cfg.TLS = &tls.Config{}
	strict := open(t, cfg, newRecorder(t))
	_, err = strict.Topic(ctx, "orders")
	var unknown x509.UnknownAuthorityError
	if !errors.As(err, &unknown) {
		t.Errorf("an unknown authority: %v", err)
	}
}

// TestIdleConnection: one that nothing was sent on for long is made anew, as brokers close it.
func TestIdleConnection(t *testing.T) {
	ctx := testContext(t)
	nw := newNetwork()
	c := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"), nw.option())
	s := open(t, testConfig(t, c), newRecorder(t))
	produce(t, s, record("orders", 0, 0))
	flush(t, ctx, s)
	b := s.brokers[0]
	poll(t, ctx, "the answer", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.inFlight == 0
	})
	b.used = time.Now().Add(-2 * idleLimit)
	nw.away(true)
	nw.away(false)
	produce(t, s, record("orders", 0, 1))
	flush(t, ctx, s)
	if st := s.Stats(); st.Retries != 0 {
		t.Errorf("the record was lost with the old connection first: %+v", st)
	}
}

// TestReauthentication: a login that expires is renewed on the connection, between requests.
func TestReauthentication(t *testing.T) {
	ctx := testContext(t)
	c := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(3, "orders"), kfake.EnableSASL(),
		kfake.Superuser("SCRAM-SHA-256", "relay", "secret"),
		kfake.BrokerConfigs(map[string]string{"connections.max.reauth.ms": "200"}))
	logins := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.SASLAuthenticate}, TopLevel: true, Observe: true, Count: -1})
	cfg := testConfig(t, c)
	cfg.SASL = SASL{Mechanism: "scram-sha-256", User: "relay", Password: "secret"}
	h := newRecorder(t)
	s := open(t, cfg, h)
	n := 0
	for start := time.Now(); time.Since(start) < time.Second; n++ {
		produce(t, s, record("orders", int32(n%3), n))
		h.settledTo(ctx, n-20)
	}
	flush(t, ctx, s)
	if logins.Hits() < 8 {
		t.Errorf("%d steps of logins, want some for each 200 ms", logins.Hits())
	}
	if h.acked != n {
		t.Errorf("%d acks, want %d", h.acked, n)
	}
}
