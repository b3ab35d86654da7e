package envtest

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/cdc-relay/cdc-relay/internal/devenv"
)

var kafka = shared[*devenv.Kafka]{name: func(k *devenv.Kafka) string {
	return "Kafka " + k.Version() + " at " + strings.Join(k.Brokers(), ",")
}}

// Kafka returns the real broker that the tests of this binary share. It must stay up: take
// OwnKafka to stop one. Where none can be started the test is skipped, or fails in CI.
func Kafka(t testing.TB) *devenv.Kafka {
	t.Helper()
	k, err := kafka.get(t, func(ctx context.Context) (*devenv.Kafka, error) {
		if b := os.Getenv("TEST_KAFKA_BROKERS"); b != "" {
			return devenv.ConnectKafka(ctx, strings.Split(b, ","))
		}
		return devenv.StartKafka(ctx, devenv.KafkaOptions{})
	})
	check(t, err)
	return k
}

// OwnKafka starts a broker for this test alone, which may stop, kill and freeze it.
func OwnKafka(t testing.TB, o devenv.KafkaOptions) *devenv.Kafka {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	k, err := devenv.StartKafka(ctx, o)
	check(t, err)
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	return k
}

func check(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, devenv.ErrNoKafka) && os.Getenv("CI") != "true" && os.Getenv("TEST_REQUIRE_KAFKA") != "1" {
		t.Skipf("needs a real Kafka: %v (TEST_REQUIRE_KAFKA=1 makes this a failure)", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Embedded starts an in-process broker for this test alone.
func Embedded(t testing.TB, options ...kfake.Opt) *devenv.Embedded {
	t.Helper()
	e, err := devenv.StartEmbedded(options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// topicLimit bounds the making and the deleting of a topic.
const topicLimit = time.Minute

// unfit matches what a topic's name can't hold.
var unfit = regexp.MustCompile(`[^a-zA-Z0-9._-]+`)

// Topic makes a topic of its own for the test, named after it, and deletes it afterwards.
func Topic(t testing.TB, brokers []string, partitions int32) string {
	t.Helper()
	name := unfit.ReplaceAllString(t.Name(), "-")
	name = name[:min(len(name), 100)] + "-" + strings.ToLower(rand.Text()[:8])
	ctx, cancel := context.WithTimeout(context.Background(), topicLimit)
	defer cancel()
	if err := devenv.CreateTopic(ctx, brokers, name, partitions, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), topicLimit)
		defer cancel()
		if err := devenv.DeleteTopic(ctx, brokers, name); err != nil {
			t.Logf("left behind: %v", err) // the test may have ended the broker
		}
	})
	return name
}
