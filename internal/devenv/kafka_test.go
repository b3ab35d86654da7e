package devenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-relay/cdc-relay/test/proxy"
)

// startKafka skips where Java is missing, except in CI.
func startKafka(t *testing.T, o KafkaOptions) *Kafka {
	t.Helper()
	if testing.Short() {
		t.Skip("starts Kafka several times")
	}
	k, err := StartKafka(t.Context(), o)
	if errors.Is(err, ErrNoKafka) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	return k
}

func produce(ctx context.Context, b Broker, topic, value string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Brokers()...), kgo.DefaultProduceTopic(topic), kgo.AllowAutoTopicCreation(), kgo.UnknownTopicRetries(0),
		kgo.ProducerBatchCompression(kgo.NoCompression())) // else zeros are never too large
	if err != nil {
		return err
	}
	defer client.Close()
	return client.ProduceSync(ctx, kgo.StringRecord(value)).FirstErr()
}

// values reads the first n records of a topic with one partition.
func values(t *testing.T, b Broker, topic string, n int) []string {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Brokers()...), kgo.ConsumeTopics(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var got []string
	for len(got) < n {
		f := client.PollFetches(t.Context())
		if err := f.Err(); err != nil {
			t.Fatal(err)
		}
		f.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
	}
	return got
}

func TestKafkaLife(t *testing.T) {
	k := startKafka(t, KafkaOptions{Settings: map[string]string{"message.max.bytes": "5000"}, Progress: func(s string) { t.Log(s) }})
	t.Log(k.Kind(), k.Version(), k.Brokers(), k.Dir())
	for range 2 { // the first use would make it
		if err := produce(t.Context(), k, "t", "0"); !errors.Is(err, kerr.UnknownTopicOrPartition) {
			t.Fatalf("a topic that doesn't exist: %v", err)
		}
	}
	if err := CreateTopic(t.Context(), k.Brokers(), "t", 1, map[string]string{"retention.ms": "-1"}); err != nil {
		t.Fatal(err)
	}
	if err := CreateTopic(t.Context(), k.Brokers(), "t", 1, nil); !errors.Is(err, kerr.TopicAlreadyExists) {
		t.Errorf("a topic that exists: %v", err)
	}
	if err := produce(t.Context(), k, "t", string(make([]byte, 6000))); !errors.Is(err, kerr.MessageTooLarge) {
		t.Errorf("the settings don't reach the broker: %v", err)
	}
	pid, address := k.PID(), k.Brokers()[0]
	for i, step := range []struct {
		name string
		down func() error
	}{
		{"stop", func() error { return k.Stop(t.Context()) }},
		{"kill", k.Kill},
		{"kill while frozen", func() error { return errors.Join(k.Freeze(), k.Kill()) }},
	} {
		if err := produce(t.Context(), k, "t", string(rune('0'+i))); err != nil {
			t.Fatal(err)
		}
		if err := step.down(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if err := k.ping(t.Context()); err == nil {
			t.Fatalf("%s: the broker still answers", step.name)
		}
		if err := k.Start(t.Context()); err != nil {
			t.Fatalf("start after a %s: %v", step.name, err)
		}
		got := values(t, k, "t", i+1)
		if len(got) != i+1 || got[i] != string(rune('0'+i)) {
			t.Errorf("after a %s: %d records, the last one %.10q", step.name, len(got), got[len(got)-1])
		}
	}
	if k.PID() == pid || k.Brokers()[0] != address {
		t.Error("a restart keeps the address and gets a new process")
	}
	pid = k.PID()
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(k.Dir()); !os.IsNotExist(err) {
		t.Errorf("the folder is still there: %v", err)
	}
	if !ended(pid) {
		t.Error("the broker still runs")
	}
}

func TestFrozenKafkaAnswersAfterTheThaw(t *testing.T) {
	k := startKafka(t, KafkaOptions{})
	if err := CreateTopic(t.Context(), k.Brokers(), "t", 1, nil); err != nil {
		t.Fatal(err)
	}
	if err := k.Freeze(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := produce(ctx, k, "t", "x"); err == nil {
		t.Fatal("a frozen broker took a record")
	}
	if err := k.Thaw(); err != nil {
		t.Fatal(err)
	}
	if err := produce(t.Context(), k, "t", "y"); err != nil {
		t.Fatal(err)
	}
}

func TestWithoutJavaThereIsNoKafka(t *testing.T) {
	empty := t.TempDir()
	t.Run("hidden", func(t *testing.T) {
		t.Setenv(KafkaEnv, "none")
		wantNoKafka(t)
	})
	t.Run("no java", func(t *testing.T) {
		t.Setenv("PATH", empty)
		t.Setenv("JAVA_HOME", "")
		wantNoKafka(t)
	})
	t.Run("java too old", func(t *testing.T) {
		bin := t.TempDir()
		script := "#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n"
		if err := os.WriteFile(filepath.Join(bin, "java"), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", bin+":/bin:/usr/bin")
		t.Setenv("JAVA_HOME", "")
		wantNoKafka(t)
	})
	t.Run("no Maven and nothing fetched", func(t *testing.T) {
		bin := t.TempDir()
		script := "#!/bin/sh\necho 'openjdk version \"21\" 2023-09-19' >&2\n"
		if err := os.WriteFile(filepath.Join(bin, "java"), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", bin)
		t.Setenv("JAVA_HOME", "")
		t.Setenv("XDG_CACHE_HOME", empty)
		t.Setenv("HOME", empty) // macOS
		wantNoKafka(t)
	})
}

func wantNoKafka(t *testing.T) {
	t.Helper()
	k, err := StartKafka(t.Context(), KafkaOptions{Dir: t.TempDir()})
	if err == nil {
		t.Fatal(k.Close())
	}
	if !errors.Is(err, ErrNoKafka) {
		t.Fatalf("the error is not ErrNoKafka: %v", err)
	}
	t.Log(err)
}

func TestEmbedded(t *testing.T) {
	e, err := StartEmbedded()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	t.Log(e.Kind(), e.Version(), e.Brokers())
	if err := produce(t.Context(), e, "t", "0"); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Fatalf("a topic that doesn't exist: %v", err)
	}
	if err := CreateTopic(t.Context(), e.Brokers(), "t", 1, nil); err != nil {
		t.Fatal(err)
	}
	if err := produce(t.Context(), e, "t", "a"); err != nil {
		t.Fatal(err)
	}
	if got := values(t, e, "t", 1); got[0] != "a" {
		t.Errorf("%q", got)
	}
}

func TestMavenOptions(t *testing.T) {
	t.Setenv("MAVEN_OPTS", "-Xmx1g")
	t.Setenv("HOME", "/home/a")
	if got := mavenOptions("/tmp/w"); got != "-Xmx1g -XX:-UsePerfData -Djava.io.tmpdir=/tmp/w -Duser.home=/home/a" {
		t.Error(got)
	}
	t.Setenv("HOME", "/home/a b") // mvn would split it
	if got := mavenOptions("/tmp/w"); got != "-Xmx1g -XX:-UsePerfData -Djava.io.tmpdir=/tmp/w" {
		t.Error(got)
	}
}

// TestKafkaVia: clients that come by the other address are told that one, so they never pass by
// what stands there.
func TestKafkaVia(t *testing.T) {
	var between *proxy.Proxy
	k := startKafka(t, KafkaOptions{Via: func(target string) (string, error) {
		p, err := proxy.Listen(target)
		if err != nil {
			return "", err
		}
		between = p
		t.Cleanup(func() {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})
		return p.Addr(), nil
	}})
	for _, c := range []struct{ asked, named string }{{between.Addr(), between.Addr()}, {k.Brokers()[0], k.Brokers()[0]}} {
		err := administer([]string{c.asked}, func(admin *kadm.Client) error {
			meta, err := admin.BrokerMetadata(t.Context())
			if err != nil {
				return err
			}
			if len(meta.Brokers) != 1 {
				t.Fatalf("%d brokers are named", len(meta.Brokers))
			}
			if got := fmt.Sprintf("%s:%d", meta.Brokers[0].Host, meta.Brokers[0].Port); got != c.named {
				t.Errorf("asked at %s the broker names %s, want %s", c.asked, got, c.named)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	before := between.Accepted()
	if err := CreateTopic(t.Context(), k.Brokers(), "t", 1, nil); err != nil {
		t.Fatal(err)
	}
	if n := between.Accepted(); n != before {
		t.Errorf("a client that goes straight made %d connections by the other address", n-before)
	}
}
