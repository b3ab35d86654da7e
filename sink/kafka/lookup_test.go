package kafka

import (
	"context"
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestTopic(t *testing.T) {
	ctx := testContext(t)
	c := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(7, "orders"))
	s := open(t, testConfig(t, c), newRecorder(t))

	info, err := s.Topic(ctx, "orders")
	if err != nil || info.Partitions != 7 || info.ID == "" {
		t.Errorf("orders: %+v, %v", info, err)
	}
	if _, err := s.Topic(ctx, "nowhere"); !errors.Is(err, ErrTopicMissing) {
		t.Errorf("missing topic: %v", err)
	}
	if _, err := s.Topic(ctx, "a topic"); !errors.Is(err, ErrTopicRefused) {
		t.Errorf("impossible name: %v", err)
	}
	for _, x := range []struct {
		err  *kerr.Error
		want error
	}{
		{kerr.TopicAuthorizationFailed, ErrUnauthorized},
		{kerr.InvalidTopicException, ErrTopicRefused},
		{kerr.LeaderNotAvailable, ErrUnreachable},
	} {
		// Several faults, as every address is tried.
		f := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: "secret", Err: x.err, Count: -1})
		_, err := s.Topic(ctx, "secret")
		f.Remove()
		if !errors.Is(err, x.want) {
			t.Errorf("%s: %v, want %v", x.err.Message, err, x.want)
		}
	}
	c.Close()
	if _, err := s.Topic(ctx, "orders"); !errors.Is(err, ErrUnreachable) {
		t.Errorf("no broker: %v", err)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := s.Topic(gone, "orders"); !errors.Is(err, ErrUnreachable) {
		t.Errorf("ended context: %v", err)
	}
}

func TestTopicLogin(t *testing.T) {
	ctx := testContext(t)
	for _, mech := range []struct{ kfake, ours string }{
		{"PLAIN", "plain"}, {"SCRAM-SHA-256", "scram-sha-256"}, {"SCRAM-SHA-512", "scram-sha-512"},
	} {
		t.Run(mech.ours, func(t *testing.T) {
			c := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(3, "orders"),
				kfake.EnableSASL(), kfake.Superuser(mech.kfake, "relay", "s3cr,=t"))
			cfg := testConfig(t, c)
			cfg.SASL = SASL{Mechanism: mech.ours, User: "relay", Password: "s3cr,=t"}
			h := newRecorder(t)
			s := open(t, cfg, h)
			if info, err := s.Topic(ctx, "orders"); err != nil || info.Partitions != 3 {
				t.Errorf("right password: %+v, %v", info, err)
			}
			produce(t, s, record("orders", 0, 0))
			flush(t, ctx, s)

			// kfake closes the connection on a wrong password; Kafka says so.
			c.ControlKey(int16(kmsg.SASLAuthenticate), func(req kmsg.Request) (kmsg.Response, error, bool) {
				c.KeepControl()
				res := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
				res.ErrorCode = kerr.SaslAuthenticationFailed.Code
				return res, nil, true
			})
			cfg.SASL.Password = "wrong"
			bad := open(t, cfg, h)
			if _, err := bad.Topic(ctx, "orders"); !errors.Is(err, ErrAuthentication) {
				t.Errorf("wrong password: %v", err)
			}
		})
	}
}
