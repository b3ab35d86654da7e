package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// pair writes a certificate that signs itself, and its key.
func pair(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kafka.example"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: cert}, keyFile: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

func TestTLS(t *testing.T) {
	cert, key := pair(t)
	load := func(flags map[string]string) *tls.Config {
		t.Helper()
		c, err := mustLoad(t, Sources{Flags: flags}).Kafka.TLS.Load()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if c := load(nil); c != nil {
		t.Errorf("off, and yet %v", c)
	}
	if c := load(map[string]string{"kafka.tls.enabled": "true"}); c == nil || c.RootCAs != nil || c.MinVersion != tls.VersionTLS12 || c.InsecureSkipVerify {
		t.Errorf("with the system's certificates: %+v", c)
	}
	// A file or a name is enough to turn it on.
	c := load(map[string]string{
		"kafka.tls.ca_file": cert, "kafka.tls.cert_file": cert, "kafka.tls.key_file": key, "kafka.tls.server_name": "kafka.example",
	})
	if c == nil || c.RootCAs == nil || len(c.Certificates) != 1 || c.ServerName != "kafka.example" {
		t.Fatalf("with files: %+v", c)
	}
	if _, err := (TLS{Enabled: true, CAFile: cert + ".gone"}).Load(); err == nil {
		t.Error("a file that has gone is no error")
	}
}
