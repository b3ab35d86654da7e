package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/IBM/sarama"
)

// TopicInfo is what a topic is like now.
type TopicInfo struct {
	Partitions int32
	// ID tells a topic from one of the same name made after it was deleted; empty where
	// brokers are older than 2.8.
	ID string
}

// Topic looks a topic up once, asking one broker after the other. An error is a *TopicError
// that wraps ErrTopicMissing, ErrUnauthorized or ErrTopicRefused, or wraps ErrUnreachable
// (which may heal by itself) or ErrAuthentication.
func (s *Sink) Topic(ctx context.Context, name string) (TopicInfo, error) {
	if !validTopic(name) {
		return TopicInfo{}, topicError(name, -1, codeInvalidTopic, "no topic can have this name")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	var errs []error
	for _, addr := range s.addresses() {
		info, err := s.lookUp(ctx, addr, name)
		var te *TopicError
		if err == nil || errors.As(err, &te) {
			return info, err
		}
		if loginRefused(err) {
			return TopicInfo{}, fmt.Errorf("look up topic %q: %w: %w", name, ErrAuthentication, err)
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return TopicInfo{}, fmt.Errorf("look up topic %q: %w: %w", name, ErrUnreachable, errors.Join(errs...))
}

func (s *Sink) lookUp(ctx context.Context, addr, name string) (TopicInfo, error) {
	c, err := s.meta.dialer.open(ctx, addr)
	if err != nil {
		return TopicInfo{}, err
	}
	defer c.close()
	res, err := askMetadata(c, []string{name})
	if err != nil {
		return TopicInfo{}, err
	}
	for _, tm := range res.Topics {
		if tm.Name != name {
			continue
		}
		code := int16(tm.Err)
		switch classify(code) {
		case acked:
			info := TopicInfo{Partitions: int32(len(tm.Partitions))}
			if tm.Uuid != (sarama.Uuid{}) {
				info.ID = tm.Uuid.String()
			}
			return info, nil
		case moved, refused, unknown:
			return TopicInfo{}, fmt.Errorf("broker %s: topic %q is not ready: %s", addr, name, codeName(code))
		}
		return TopicInfo{}, topicError(name, -1, code, "")
	}
	return TopicInfo{}, fmt.Errorf("broker %s: the metadata doesn't mention topic %q", addr, name)
}

// loginRefused says that err is the brokers' answer to the login, which no retry changes.
func loginRefused(err error) bool {
	return errors.Is(err, sarama.ErrSASLAuthenticationFailed) || errors.Is(err, sarama.ErrUnsupportedSASLMechanism)
}
