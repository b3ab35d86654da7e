package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// TLS says how to talk TLS to the brokers.
type TLS struct {
	Enabled    bool
	CAFile     string
	CertFile   string
	KeyFile    string
	ServerName string

	off bool // Enabled was given as false
}

// Load reads the files and returns what a client needs; nil where TLS is off.
func (t TLS) Load() (*tls.Config, error) {
	if !t.Enabled {
		return nil, nil // a nil *tls.Config is how every client spells "no TLS"
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read kafka.tls.ca_file: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read kafka.tls.ca_file %s: it holds no certificate in PEM form", t.CAFile)
		}
	}
	if t.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			// The cause never quotes the key: crypto/tls says only what kind of block it found.
			return nil, fmt.Errorf("read kafka.tls.cert_file %s and key_file %s: %w", t.CertFile, t.KeyFile, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// SASL says who we are at the brokers.
type SASL struct {
	// Mechanism is plain, scram-sha-256 or scram-sha-512; empty is none.
	Mechanism    string
	Username     string
	Password     Secret
	PasswordFile string
}

// Secret returns the password, from the file where one is named. It is read anew each time.
func (s SASL) Secret() (Secret, error) {
	if s.PasswordFile == "" {
		return s.Password, nil
	}
	return readSecret("kafka.sasl.password_file", s.PasswordFile)
}

var errEmptySecret = errors.New("it is empty")
