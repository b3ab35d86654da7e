package kafka

import (
	"slices"
	"testing"

	"github.com/IBM/sarama"
)

// everyCode is the table that classify must agree with, written down a second time.
var everyCode = map[class][]int16{
	acked:    {0, 46},
	moved:    {5, 6, 8, 9, 56, 72, 74, 75},
	refused:  {2, 14, 19, 89},
	unknown:  {-1, 7, 13, 20},
	missing:  {3, 100},
	rejected: {10, 18, 32, 87},
	sequence: {45, 47, 49, 59, 90},
	stopped:  {17, 21, 29, 31, 35, 43, 44, 76},
}

func TestClassify(t *testing.T) {
	for code := int16(-5); code < 200; code++ {
		want := strange
		for c, list := range everyCode {
			if slices.Contains(list, code) {
				want = c
			}
		}
		if got := classify(code); got != want {
			t.Errorf("classify(%d) = %d, want %d", code, got, want)
		}
	}
	if n := len(codes); n != 37 {
		t.Errorf("%d codes are classified, the table has 37", n)
	}
}

// TestCodeNames holds our names against sarama's knowledge of the codes.
func TestCodeNames(t *testing.T) {
	for code, name := range map[sarama.KError]string{
		sarama.ErrNotLeaderForPartition:        "NOT_LEADER_OR_FOLLOWER (6)",
		sarama.ErrMessageSizeTooLarge:          "MESSAGE_TOO_LARGE (10)",
		sarama.ErrNotEnoughReplicasAfterAppend: "NOT_ENOUGH_REPLICAS_AFTER_APPEND (20)",
		sarama.ErrOutOfOrderSequenceNumber:     "OUT_OF_ORDER_SEQUENCE_NUMBER (45)",
		sarama.ErrUnknownProducerID:            "UNKNOWN_PRODUCER_ID (59)",
		sarama.ErrProducerFenced:               "PRODUCER_FENCED (90)",
		sarama.KError(777):                     "error code 777",
	} {
		if got := codeName(int16(code)); got != name {
			t.Errorf("codeName(%d) = %q, want %q", code, got, name)
		}
	}
}
