package simulation

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// request is one request of the relay, in the library of another client.
type request struct {
	conn        *conn
	life        *life
	version     int16
	correlation int32
	msg         kmsg.Request
	batches     []*batch // of a Produce request
}

// offered are the versions that the broker speaks.
var offered = []struct {
	key kmsg.Key
	max int16
}{
	{kmsg.Produce, 9}, {kmsg.Metadata, 12}, {kmsg.ApiVersions, 4}, {kmsg.InitProducerID, 4}, {kmsg.DescribeProducers, 0},
}

func parse(c *conn, frame []byte) *request {
	key := kmsg.Key(int16(binary.BigEndian.Uint16(frame)))
	r := &request{conn: c, life: c.life, version: int16(binary.BigEndian.Uint16(frame[2:])), correlation: int32(binary.BigEndian.Uint32(frame[4:]))}
	r.msg = key.Request()
	r.msg.SetVersion(r.version)
	in := kbin.Reader{Src: frame[8:]}
	in.NullableString() // the client's id
	if r.msg.IsFlexible() {
		kmsg.SkipTags(&in)
	}
	if err := r.msg.ReadFrom(in.Src); err != nil {
		c.life.world.rules.broken("a request of kind %s can't be read: %v", key.Name(), err)
	}
	if p, ok := r.msg.(*kmsg.ProduceRequest); ok {
		r.produce(p)
	}
	return r
}

func (r *request) produce(p *kmsg.ProduceRequest) {
	if p.Acks != -1 {
		r.life.world.rules.broken("a Produce request asks for %d acks, not for all", p.Acks)
	}
	for _, t := range p.Topics {
		for _, tp := range t.Partitions {
			b, err := readBatch(t.Topic, int(tp.Partition), tp.Records)
			if err != nil {
				r.life.world.rules.broken("a batch for %s/%d can't be read: %v", t.Topic, tp.Partition, err)
				continue
			}
			b.life = r.life
			r.batches = append(r.batches, b)
		}
	}
	// The client keeps them in a map.
	slices.SortFunc(r.batches, func(a, b *batch) int { return cmp.Compare(a.partition, b.partition) })
}

func (r *request) versions() bool { return r.msg.Key() == int16(kmsg.ApiVersions) }

func (r *request) answerVersions() []byte {
	res := kmsg.NewPtrApiVersionsResponse()
	res.SetVersion(r.version)
	for _, o := range offered {
		k := kmsg.NewApiVersionsResponseApiKey()
		k.ApiKey, k.MaxVersion = int16(o.key), o.max
		res.ApiKeys = append(res.ApiKeys, k)
	}
	return r.frame(res)
}

// frame encodes an answer, header and size included.
func (r *request) frame(res kmsg.Response) []byte {
	res.SetVersion(r.version)
	b := binary.BigEndian.AppendUint32(make([]byte, 4, 256), uint32(r.correlation))
	if res.IsFlexible() && !r.versions() {
		b = append(b, 0) // no tags
	}
	b = res.AppendTo(b)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

func (r *request) String() string {
	name := kmsg.Key(r.msg.Key()).Name()
	if len(r.batches) == 0 {
		return name
	}
	parts := make([]string, len(r.batches))
	for i, b := range r.batches {
		parts[i] = b.String()
	}
	return name + " " + strings.Join(parts, " ")
}

// batch is a record batch of one partition (magic 2).
type batch struct {
	life      *life
	topic     string
	partition int
	producer  int64
	epoch     int16
	first     int32
	size      int
	records   []record
}

func (b *batch) last() int32 { return b.first + int32(len(b.records)) - 1 }

func (b *batch) String() string {
	return fmt.Sprintf("p%d[id %d/%d seq %d-%d]", b.partition, b.producer, b.epoch, b.first, b.last())
}

// Where a batch has its fields: the Kafka protocol's "Record Batch".
const (
	atCRC        = 17
	atAttributes = 21
	atFirstTime  = 27
	atProducer   = 43
	atEpoch      = 51
	atSequence   = 53
	atCount      = 57
	batchHead    = 61
)

func readBatch(topic string, partition int, b []byte) (*batch, error) {
	if len(b) < batchHead {
		return nil, fmt.Errorf("it has %d bytes", len(b))
	}
	if sum := crc32.Checksum(b[atAttributes:], crc32.MakeTable(crc32.Castagnoli)); sum != binary.BigEndian.Uint32(b[atCRC:]) {
		return nil, fmt.Errorf("its checksum is wrong")
	}
	out := &batch{
		topic: topic, partition: partition, size: len(b),
		producer: int64(binary.BigEndian.Uint64(b[atProducer:])),
		epoch:    int16(binary.BigEndian.Uint16(b[atEpoch:])),
		first:    int32(binary.BigEndian.Uint32(b[atSequence:])),
	}
	r := reader{b: b[batchHead:]}
	begin := int64(binary.BigEndian.Uint64(b[atFirstTime:]))
	for range binary.BigEndian.Uint32(b[atCount:]) {
		out.records = append(out.records, r.record(begin))
	}
	if r.failed || len(r.b) > 0 {
		return nil, fmt.Errorf("its records are broken")
	}
	return out, nil
}

// reader reads records: varints, and bytes that they count.
type reader struct {
	b      []byte
	failed bool
}

func (r *reader) record(begin int64) (out record) {
	r.varint() // size
	r.take(1)  // attributes
	out.ms = begin + r.varint()
	r.varint() // offset
	out.key = r.take(int(r.varint()))
	out.value = r.take(int(r.varint()))
	for range r.varint() {
		if r.failed {
			break
		}
		key := r.take(int(r.varint()))
		out.headers = append(out.headers, header{string(key), r.take(int(r.varint()))})
	}
	return out
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.failed = true
		return 0
	}
	r.b = r.b[n:]
	return v
}

// take returns n bytes, nil for a negative n.
func (r *reader) take(n int) []byte {
	if n < 0 {
		return nil
	}
	if n > len(r.b) {
		r.failed = true
		return nil
	}
	out := r.b[:n:n]
	r.b = r.b[n:]
	return out
}
