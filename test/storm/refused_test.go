package storm

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Events that the broker refuses, in the middle of a storm: each of them is put away by a
// verdict and none else, and the others are as if nothing had been.
func TestStormWithRefusedEvents(t *testing.T) {
	events, each := 100_000, 5
	if testing.Short() {
		events, each = 30_000, 1
	}
	s := newStorm(t, events, each)
	s.traffic.spoil = 401
	limit(t, s.cluster, "storm", 20_000)
	k := s.open()
	s.blow(k, 0, s.events)
	s.calm(k)
	if r := s.judge(); !r.Once() {
		t.Error("the topic is not what was produced without the refused events")
	}
	for n := range s.events {
		if cause := s.traffic.refused[uint64(n)+1]; (cause != nil) != s.traffic.spoiled(n) {
			t.Errorf("event %d: spoiled is %v, refused for %v", n, s.traffic.spoiled(n), cause)
		}
	}
	t.Logf("%d events were refused", len(s.traffic.refused))
}

// limit sets the size of the largest batch that a topic takes.
func limit(t *testing.T, c *kfake.Cluster, topic string, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	value := strconv.Itoa(n)
	rs, err := kadm.NewClient(cl).AlterTopicConfigs(ctx, []kadm.AlterConfig{{Name: "max.message.bytes", Value: &value}}, topic)
	if err == nil {
		err = rs[0].Err
	}
	if err != nil {
		t.Fatal(err)
	}
}
