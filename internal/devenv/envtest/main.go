package envtest

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/cdc-relay/cdc-relay/internal/devenv"
)

// startLimit is the longest that a server may take to start, downloads included.
const startLimit = 10 * time.Minute

// shared is a server that the tests of a binary have in common.
type shared[T io.Closer] struct {
	once   sync.Once
	name   func(T) string
	server T
	err    error
	up     bool
}

// get starts the server when it is asked for the first time.
func (s *shared[T]) get(t testing.TB, start func(context.Context) (T, error)) (T, error) {
	t.Helper()
	if !inMain {
		t.Fatal("the package's TestMain must call envtest.Main, which ends the shared servers")
	}
	s.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), startLimit)
		defer cancel()
		s.server, s.err = start(ctx)
		s.up = s.err == nil
	})
	return s.server, s.err
}

// close ends the server if it was started.
func (s *shared[T]) close() error {
	if !s.up {
		return nil
	}
	fmt.Fprintln(os.Stderr, "envtest: used", s.name(s.server))
	return s.server.Close()
}

// inMain is set while Main runs the tests; they start after it and end before it changes.
var inMain bool

// Main runs the tests, ends the shared servers, makes the package's own checks, looks for what
// the tests left behind (goroutines, processes, folders of servers), and exits.
func Main(m *testing.M, checks ...func() error) {
	inMain = true
	code := m.Run()
	inMain = false
	all := append([]func() error{postgres.close, kafka.close}, checks...)
	for _, check := range append(all, goroutines, processes) {
		if err := check(); err != nil {
			fmt.Fprintln(os.Stderr, "envtest:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// goroutines says which ones are still there. It waits a moment for those that are ending.
func goroutines() error {
	return goleak.Find(
		// sarama's metrics start one ticker per process and never stop it.
		goleak.IgnoreTopFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick"),
	)
}

// processes says what is left of servers and other children.
func processes() error {
	if left := devenv.Left(); len(left) > 0 {
		return fmt.Errorf("the tests have left behind: %s", strings.Join(left, ", "))
	}
	return nil
}
