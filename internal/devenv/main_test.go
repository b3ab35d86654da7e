package devenv

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain does by itself what envtest.Main does for others: that package needs this one.
func TestMain(m *testing.M) {
	code := m.Run()
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	if left := Left(); len(left) > 0 {
		fmt.Fprintln(os.Stderr, "left behind:", left)
		code = max(code, 1)
	}
	os.Exit(code)
}
