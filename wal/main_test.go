package wal_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/cdc-relay/cdc-relay/internal/devenv/envtest"
)

func TestMain(m *testing.M) {
	envtest.Main(m, func() error { return goleak.Find() })
}
