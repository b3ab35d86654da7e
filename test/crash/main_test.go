package crash

import (
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/devenv/envtest"
	"github.com/cdc-relay/cdc-relay/test/lab"
)

func TestMain(m *testing.M) { envtest.Main(m, lab.Cleanup) }
