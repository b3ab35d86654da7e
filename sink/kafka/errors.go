package kafka

import (
	"errors"
	"fmt"

	"github.com/cdc-relay/cdc-relay/sink"
	"github.com/cdc-relay/cdc-relay/wal"
)

// What a TopicError may wrap. Test with errors.Is.
var (
	// ErrTopicMissing: the topic or the partition doesn't exist. Nobody here creates one.
	ErrTopicMissing = errors.New("the topic or partition does not exist")
	// ErrUnauthorized: the user may not write to the topic, or not idempotently.
	ErrUnauthorized = errors.New("not authorized")
	// ErrTopicRefused: Kafka refuses the topic as it is configured.
	ErrTopicRefused = errors.New("refused by Kafka")
	// ErrUnreachable: no broker answered; trying again later may help.
	ErrUnreachable = errors.New("no broker can be reached")
	// ErrAuthentication: the brokers refuse the login.
	ErrAuthentication = errors.New("authentication with Kafka failed")
)

// TopicError says why a topic, or one partition of it, can't be published to.
type TopicError struct {
	Topic     string
	Partition int32 // -1: the whole topic
	Code      int16 // Kafka's error code; 0 where there is none
	Message   string
	Err       error // one of the sentinels above
}

func (e *TopicError) Error() string {
	s := fmt.Sprintf("publish to topic %q", e.Topic)
	if e.Partition >= 0 {
		s += fmt.Sprintf(" partition %d", e.Partition)
	}
	s += ": " + e.Err.Error()
	if e.Code != codeNone {
		s += ": " + codeName(e.Code)
	}
	if e.Message != "" {
		s += ": " + e.Message
	}
	return s
}

func (e *TopicError) Unwrap() error { return e.Err }

// topicError builds the error for a code about a topic.
func topicError(topic string, partition int32, code int16, message string) *TopicError {
	e := &TopicError{Topic: topic, Partition: partition, Code: code, Message: message, Err: ErrTopicRefused}
	switch {
	case classify(code) == missing:
		e.Err = ErrTopicMissing
		if e.Message == "" {
			e.Message = "create it, or grant the user DESCRIBE on it"
		}
	case code == codeTopicAuth || code == codeClusterAuth:
		e.Err = ErrUnauthorized
		if e.Message == "" {
			e.Message = "grant the user WRITE on the topic (before Kafka 3.0 also IDEMPOTENT_WRITE on the cluster)"
		}
	}
	return e
}

// RegressedError says that a partition's log lost records that it had acknowledged, or that
// the topic is another one than before. The partition, and all of its topic, stops.
type RegressedError struct {
	Topic     string
	Partition int32 // -1: the topic was deleted and made again
	Cause     string
	// Offset is where the log goes on now, as far as it is known; -1 where it isn't.
	Offset int64
	// From is a position that nothing before it was lost; zero where all that this process
	// published may be lost.
	From wal.Position
	// Last is the last position that the partition acknowledged.
	Last wal.Position
}

func (e *RegressedError) Error() string {
	s := fmt.Sprintf("log of topic %q", e.Topic)
	if e.Partition >= 0 {
		s += fmt.Sprintf(" partition %d", e.Partition)
	}
	s += " lost acknowledged records: " + e.Cause
	if e.Last.Lineage != 0 {
		s += fmt.Sprintf("; the events from LSN %s to %s have to be published again, then restart", e.From.Commit, e.Last.Commit)
	}
	return s
}

// StuckError says that a partition stopped because what is in its log can't be told any
// more. A restart goes on and repeats at most what isn't acknowledged.
type StuckError struct {
	Topic     string
	Partition int32
	Cause     string
}

func (e *StuckError) Error() string {
	return fmt.Sprintf("topic %q partition %d: %s; restart the relay to go on", e.Topic, e.Partition, e.Cause)
}

// RejectedError says why Kafka refuses a record as it is.
type RejectedError struct {
	Topic     string
	Partition int32
	DedupeKey string
	Code      int16  // Kafka's error code; 0 where the record can't even be sent
	Message   string // Kafka's, or ours
	Bytes     int    // the record's size before compression
	// InDoubt: an earlier attempt may have brought the record into the log all the same.
	InDoubt bool
}

func (e *RejectedError) Error() string {
	s := fmt.Sprintf("record %s (%d bytes) for topic %q partition %d is refused", e.DedupeKey, e.Bytes, e.Topic, e.Partition)
	if e.Code != codeNone {
		s += ": " + codeName(e.Code)
	}
	if e.Message != "" {
		s += ": " + e.Message
	}
	if e.InDoubt {
		s += " (an earlier attempt may have published it)"
	}
	return s
}

func rejectedError(r *sink.Record, a *action) *RejectedError {
	e := &RejectedError{
		Topic: r.Topic, Partition: r.Partition, DedupeKey: r.DedupeKey,
		Code: a.code, Message: a.reason, Bytes: recordSize(r), InDoubt: a.doubt,
	}
	switch a.batch.flaw {
	case tooLarge:
		e.Message = "larger than one request may be"
	case badTimestamp:
		e.Message = fmt.Sprintf("timestamp %d ms lies before 1970 or after 2262", r.TimestampMs)
	case badTopic:
		e.Message = "no topic can have this name"
	}
	return e
}
