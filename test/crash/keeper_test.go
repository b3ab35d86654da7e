package crash

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// keeper is the folder for what is needed to understand a failure.
type keeper struct {
	t   *testing.T
	dir string
}

func newKeeper(t *testing.T) keeper {
	t.Helper()
	dir, err := os.MkdirTemp("", "cdc-relay-soak-")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("what is needed to understand a failure goes to %s", dir) // now: a run that is killed says no more
	// Registered first, so it runs when all else has ended.
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the logs of relays and servers and the oracle's report are kept in %s", dir)
		} else if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return keeper{t, dir}
}

// endingTakes is what a soak may need beside the time of its faults, for its start and its verdict.
const endingTakes = 3 * time.Minute

// enough says that the deadline of the test binary leaves a soak of that length the time to end: a
// test that go test cuts off keeps nothing.
func enough(now, deadline time.Time, length time.Duration) error {
	if left := deadline.Sub(now); left < length+endingTakes {
		return fmt.Errorf("a soak of %s would be cut off by -timeout, in %s: give -timeout 0", length, left.Round(time.Second))
	}
	return nil
}

// serverTail is how much of a server's log is kept.
const serverTail = 1 << 20

// keep copies the servers' logs when the test has failed, before the servers are removed.
func (k keeper) keep(s *soak, seed uint64) {
	k.t.Cleanup(func() {
		if !k.t.Failed() {
			return
		}
		s.writeSteps(seed)
		for name, path := range map[string]string{
			"postgres.log": filepath.Join(s.postgres.Dir(), "postgres.log"),
			"kafka.log":    filepath.Join(s.broker.Dir(), "kafka.log"),
		} {
			text, err := tail(path, serverTail)
			if err != nil {
				k.t.Errorf("keep the server's log: %v", err)
				continue
			}
			s.write(name, text)
		}
	})
}

// writeSteps keeps what was done so far.
func (s *soak) writeSteps(seed uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lines strings.Builder
	fmt.Fprintf(&lines, "seed %d, -soak %s, -soak.rate %g\n", seed, *soakFor, *soakRate)
	for i := range s.steps {
		st := &s.steps[i]
		fmt.Fprintf(&lines, "%4d  %-60s  held %-8s  calm %-5v  recovered %-5v  first %s\n",
			i+1, st.what, st.held.Round(time.Millisecond), st.calm, st.recovered, st.first.Round(time.Millisecond))
	}
	s.write("steps.txt", lines.String())
}

// write keeps a text in the folder of the logs.
func (s *soak) write(name, text string) {
	if err := os.WriteFile(filepath.Join(s.Logs, name), []byte(text), 0o644); err != nil {
		s.t.Errorf("keep %s: %v", name, err)
	}
}

func tail(path string, most int64) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	end, err := f.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = f.Seek(max(0, end-most), io.SeekStart)
	}
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(f)
	return string(b), err
}
