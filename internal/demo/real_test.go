package demo

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-relay/cdc-relay/internal/devenv/envtest"
)

// relayExe builds the real relay.
func relayExe(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the relay")
	}
	exe := filepath.Join(t.TempDir(), "cdc-relay")
	cmd := exec.Command("go", "build", "-o", exe, "github.com/cdc-relay/cdc-relay/cmd/cdc-relay")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("build the relay: %v", err)
	}
	return exe
}

// TestRealRelay is the demo as users run it: the real relay, with servers of its own, on each
// kind of broker.
func TestRealRelay(t *testing.T) {
	exe := relayExe(t)
	for _, broker := range []string{"embedded", "kafka"} {
		t.Run(broker, func(t *testing.T) {
			if broker == "kafka" {
				envtest.Kafka(t) // skips where there is none
			}
			tmp := temporary(t)
			var out bytes.Buffer
			v, err := Run(t.Context(), Options{Exe: exe, Broker: broker, Events: 5000, Out: &out})
			t.Log(out.String())
			if err != nil {
				t.Fatal(err)
			}
			if v.Events != 5000 || len(v.Kills) == 0 || v.Kills[len(v.Kills)-1].Unconfirmed == 0 {
				t.Errorf("%+v", v)
			}
			empty(t, tmp)
		})
	}
	t.Run("servers of somebody else's", func(t *testing.T) {
		k := envtest.Kafka(t)
		v, _, err := playDemo(t.Context(), t, "", Options{Exe: exe, Broker: "kafka", KafkaBrokers: k.Brokers()})
		if err != nil || !v.Clean() {
			t.Fatalf("%+v, %v", v, err)
		}
		client, err := kgo.NewClient(kgo.SeedBrokers(k.Brokers()...))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		topics, err := kadm.NewClient(client).ListTopics(t.Context())
		if err != nil || strings.Contains(strings.Join(topics.Names(), " "), "cdc-relay-demo") {
			t.Errorf("topics left: %v, %v", topics.Names(), err)
		}
		conn, err := pgx.Connect(t.Context(), envtest.Postgres(t).URL())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		var left int
		err = conn.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM pg_database WHERE datname LIKE 'cdc_relay_demo%') + (SELECT count(*) FROM pg_replication_slots WHERE database LIKE 'cdc_relay_demo%')`).Scan(&left)
		if err != nil || left > 0 {
			t.Errorf("%d databases or slots left, %v", left, err)
		}
	})
	t.Run("load test", func(t *testing.T) {
		v, _, err := playDemo(t.Context(), t, "", Options{Exe: exe, Rate: 500, For: 2 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if v.Events != 1000 || v.Repeated != 0 || v.Latency == nil {
			t.Errorf("%+v", v)
		}
	})
}
