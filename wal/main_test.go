package wal_test

import (
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/devenv/envtest"
)

func TestMain(m *testing.M) { envtest.Main(m) }
