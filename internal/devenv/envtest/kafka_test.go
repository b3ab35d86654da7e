package envtest

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-relay/cdc-relay/internal/devenv"
)

func topics(t *testing.T, brokers []string) []string {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	list, err := kadm.NewClient(client).ListTopics(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return list.Names()
}

func TestTopicIsDeleted(t *testing.T) {
	for name, broker := range map[string]func(testing.TB) devenv.Broker{
		"kafka":    func(t testing.TB) devenv.Broker { return Kafka(t) },
		"embedded": func(t testing.TB) devenv.Broker { return Embedded(t) },
	} {
		t.Run(name, func(t *testing.T) {
			b := broker(t)
			var topic string
			t.Run("user of ünfit/characters", func(t *testing.T) {
				topic = Topic(t, b.Brokers(), 3)
				if !strings.Contains(strings.Join(topics(t, b.Brokers()), " "), topic) {
					t.Fatalf("no topic %s", topic)
				}
			})
			if strings.Contains(strings.Join(topics(t, b.Brokers()), " "), topic) {
				t.Errorf("topic %s is still there", topic)
			}
		})
	}
}

// TestWithoutJava runs itself with Java hidden: a test that needs Kafka is skipped, and
// fails where Kafka is required.
func TestWithoutJava(t *testing.T) {
	if os.Getenv("ENVTEST_CHILD") != "" {
		Kafka(t)
		return
	}
	for _, c := range []struct {
		env  string
		want string
		fail bool
	}{
		{"CI=", "--- SKIP", false},
		{"CI=true", "--- FAIL", true},
		{"TEST_REQUIRE_KAFKA=1", "--- FAIL", true},
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestWithoutJava$", "-test.v")
		cmd.Env = append(os.Environ(), "ENVTEST_CHILD=1", "TEST_KAFKA_BROKERS=", "CI=", "TEST_REQUIRE_KAFKA=", devenv.KafkaEnv+"=none", c.env)
		out, err := cmd.CombinedOutput()
		if (err != nil) != c.fail || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: %v\n%s", c.env, err, out)
		}
	}
}
