package kafka

import (
	"errors"
	"fmt"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
)

// apply sets the login up.
func (s SASL) apply(sc *sarama.Config) error {
	n := &sc.Net.SASL
	switch s.Mechanism {
	case "":
		if s.User != "" || s.Password != "" {
			return errors.New("kafka: a SASL user or password is configured without a mechanism")
		}
		return nil
	case "plain":
		n.Mechanism = sarama.SASLTypePlaintext
	case "scram-sha-256":
		n.Mechanism = sarama.SASLTypeSCRAMSHA256
		n.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &scramClient{hash: scram.SHA256} }
	case "scram-sha-512":
		n.Mechanism = sarama.SASLTypeSCRAMSHA512
		n.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &scramClient{hash: scram.SHA512} }
	default:
		return fmt.Errorf("kafka: SASL mechanism %q is not one of plain, scram-sha-256, scram-sha-512", s.Mechanism)
	}
	if s.User == "" || s.Password == "" {
		return fmt.Errorf("kafka: SASL mechanism %s needs a user and a password", s.Mechanism)
	}
	n.Enable = true
	n.User, n.Password = s.User, s.Password
	return nil
}

// scramClient is one SCRAM conversation (RFC 5802) as sarama wants it.
type scramClient struct {
	hash scram.HashGeneratorFcn
	conv *scram.ClientConversation
}

func (c *scramClient) Begin(user, password, authzID string) error {
	client, err := c.hash.NewClient(user, password, authzID)
	if err != nil {
		return fmt.Errorf("kafka: prepare the SCRAM login: %w", err)
	}
	c.conv = client.NewConversation()
	return nil
}

func (c *scramClient) Step(challenge string) (string, error) { return c.conv.Step(challenge) }

func (c *scramClient) Done() bool { return c.conv.Done() }
