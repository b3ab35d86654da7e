package kafka

import "strconv"

// class is what an answer to a batch means.
type class uint8

const (
	// acked: the batch is in the log, as durable as acks=all makes it.
	acked class = iota
	// refused: certainly not appended; the same batch again.
	refused
	// moved: certainly not appended; the same batch again, once the metadata is fresh.
	moved
	// unknown: no definite answer; the batch may be in the log. The same batch again.
	unknown
	// missing: the topic or partition isn't there. Right after a topic was made that is
	// only stale metadata, so it is tried a few times before the topic stops.
	missing
	// rejected: these records, or one of them, are refused as they are.
	rejected
	// sequence: the broker's idea of the sequence differs from ours.
	sequence
	// stopped: the topic can't be published to until somebody changes something. Certainly
	// not appended.
	stopped
	// strange: a code that nobody knows. The topic stops, and as nothing is known about the
	// batch, it counts as possibly appended.
	strange
)

// Error codes that the lane itself tells apart. The numbers are Kafka's
// (org.apache.kafka.common.protocol.Errors).
const (
	codeNone              int16 = 0
	codeUnknownTopic      int16 = 3
	codeMessageTooLarge   int16 = 10
	codeInvalidTopic      int16 = 17
	codeListTooLarge      int16 = 18
	codeTopicAuth         int16 = 29
	codeClusterAuth       int16 = 31
	codeDuplicateSequence int16 = 46
	codeUnknownProducer   int16 = 59
)

// codes says what each code means in the answer to a Produce request with acks=all. A code
// that isn't listed is strange.
var codes = map[int16]struct {
	class class
	name  string
}{
	0: {acked, "NONE"},
	// A repeat that the broker recognised. It is an ack only for a batch that was sent
	// before; the lane looks.
	46: {acked, "DUPLICATE_SEQUENCE_NUMBER"},

	5:  {moved, "LEADER_NOT_AVAILABLE"},
	6:  {moved, "NOT_LEADER_OR_FOLLOWER"},
	8:  {moved, "BROKER_NOT_AVAILABLE"},
	9:  {moved, "REPLICA_NOT_AVAILABLE"},
	56: {moved, "KAFKA_STORAGE_ERROR"},
	72: {moved, "LISTENER_NOT_FOUND"},
	74: {moved, "FENCED_LEADER_EPOCH"},
	75: {moved, "UNKNOWN_LEADER_EPOCH"},

	// Damage on the way, never the record's fault: taken as a rejection it lost records.
	2:  {refused, "CORRUPT_MESSAGE"},
	14: {refused, "COORDINATOR_LOAD_IN_PROGRESS"},
	19: {refused, "NOT_ENOUGH_REPLICAS"},
	89: {refused, "THROTTLING_QUOTA_EXCEEDED"},

	-1: {unknown, "UNKNOWN_SERVER_ERROR"},
	7:  {unknown, "REQUEST_TIMED_OUT"},
	13: {unknown, "NETWORK_EXCEPTION"},
	20: {unknown, "NOT_ENOUGH_REPLICAS_AFTER_APPEND"},

	3:   {missing, "UNKNOWN_TOPIC_OR_PARTITION"},
	100: {missing, "UNKNOWN_TOPIC_ID"},

	10: {rejected, "MESSAGE_TOO_LARGE"},
	18: {rejected, "RECORD_LIST_TOO_LARGE"},
	32: {rejected, "INVALID_TIMESTAMP"},
	87: {rejected, "INVALID_RECORD"},

	45: {sequence, "OUT_OF_ORDER_SEQUENCE_NUMBER"},
	47: {sequence, "INVALID_PRODUCER_EPOCH"},
	49: {sequence, "INVALID_PRODUCER_ID_MAPPING"},
	59: {sequence, "UNKNOWN_PRODUCER_ID"},
	90: {sequence, "PRODUCER_FENCED"},

	17: {stopped, "INVALID_TOPIC_EXCEPTION"},
	21: {stopped, "INVALID_REQUIRED_ACKS"},
	29: {stopped, "TOPIC_AUTHORIZATION_FAILED"},
	31: {stopped, "CLUSTER_AUTHORIZATION_FAILED"},
	35: {stopped, "UNSUPPORTED_VERSION"},
	43: {stopped, "UNSUPPORTED_FOR_MESSAGE_FORMAT"},
	44: {stopped, "POLICY_VIOLATION"},
	76: {stopped, "UNSUPPORTED_COMPRESSION_TYPE"},
}

// classify says what code means in the answer to a Produce request.
func classify(code int16) class {
	c, ok := codes[code]
	if !ok {
		return strange
	}
	return c.class
}

// codeName is Kafka's own name of a code, with the number, as its documentation lists it.
func codeName(code int16) string {
	c, ok := codes[code]
	if !ok {
		return "error code " + strconv.Itoa(int(code))
	}
	return c.name + " (" + strconv.Itoa(int(code)) + ")"
}
