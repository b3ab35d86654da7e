package devenv

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// repository serves content with its checksum.
func repository(t *testing.T, content []byte, sum string) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/a.jar", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		_, _ = w.Write(content)
	})
	mux.HandleFunc("/a.jar.sha256", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, sum) })
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

func TestDownload(t *testing.T) {
	content := []byte(strings.Repeat("content ", 1<<17))
	sum := sha256.Sum256(content)
	text := hex.EncodeToString(sum[:])
	for name, sum := range map[string]string{"plain": text, "with a name": strings.ToUpper(text) + "  a.jar\n"} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "a.jar")
			var told []int
			if err := download(t.Context(), repository(t, content, sum)+"/a.jar", file, func(p int) { told = append(told, p) }); err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(file); err != nil || string(got) != string(content) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			if len(told) == 0 || told[len(told)-1] != 100 || !slices.IsSorted(told) || len(slices.Compact(told)) != len(told) {
				t.Errorf("progress %v", told)
			}
		})
	}
}

func TestDownloadRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.jar")
	none := func(int) {}
	if err := download(t.Context(), repository(t, []byte("content"), strings.Repeat("0", 64))+"/a.jar", file, none); err == nil || !strings.Contains(err.Error(), "SHA-256") {
		t.Errorf("a wrong checksum: %v", err)
	}
	if err := download(t.Context(), repository(t, []byte("content"), "")+"/a.jar", file, none); err == nil {
		t.Error("an empty checksum was accepted")
	}
	if err := download(t.Context(), repository(t, nil, "")+"/b.jar", file, none); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("what isn't there: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := download(ctx, repository(t, nil, "")+"/a.jar", file, none); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
