package devenv

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

// mavenCentral is where Postgres's programs are fetched from. HTTPS_PROXY is honoured.
const mavenCentral = "https://repo1.maven.org/maven2"

// sumLimit is more than a file with a checksum holds.
const sumLimit = 1 << 10

// download fetches an address into a file and checks it against the SHA-256 that lies
// beside it on the server. progress gets each percentage once.
func download(ctx context.Context, address, file string, progress func(percent int)) error {
	defer http.DefaultClient.CloseIdleConnections() // there is one download in a process's life
	want, err := fetch(ctx, address+".sha256")
	if err != nil {
		return err
	}
	sum, err := io.ReadAll(io.LimitReader(want.Body, sumLimit))
	err = errors.Join(err, want.Body.Close())
	if err != nil {
		return fmt.Errorf("download %s.sha256: %w", address, err)
	}
	resp, err := fetch(ctx, address)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	f, err := os.OpenFile(file, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("keep a download: %w", err)
	}
	hash := sha256.New()
	meter := &meter{total: resp.ContentLength, progress: progress, last: -1}
	_, err = io.Copy(io.MultiWriter(f, hash, meter), resp.Body)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("download %s: %w", address, err)
	}
	got := hex.EncodeToString(hash.Sum(nil))
	// Some files name the artifact after the sum.
	if fields := strings.Fields(string(sum)); len(fields) == 0 || !strings.EqualFold(fields[0], got) {
		return fmt.Errorf("download %s: its SHA-256 is %s, the server says %q", address, got, strings.TrimSpace(string(sum)))
	}
	return nil
}

// fetch requests an address; the caller closes the body.
func fetch(ctx context.Context, address string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("download %s: %w", address, err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("download %s: %w", address, err)
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("download %s: the server answered %s", address, resp.Status)
	}
	return resp, nil
}

// meter counts what is written to it.
type meter struct {
	n, total int64
	last     int
	progress func(percent int)
}

func (m *meter) Write(b []byte) (int, error) {
	m.n += int64(len(b))
	if m.total > 0 {
		if percent := int(m.n * 100 / m.total); percent != m.last {
			m.last = percent
			m.progress(percent)
		}
	}
	return len(b), nil
}
