package kafka

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-relay/cdc-relay/decode/shape"
	"github.com/cdc-relay/cdc-relay/sink"
)

// encoder turns batches into the bytes that go over the wire: sarama tells them only to a
// connection.
type encoder struct {
	broker *sarama.Broker
	conn   net.Conn // the broker's end
}

// pipe is a dialer whose connection ends in the test.
type pipe struct{ conn net.Conn }

func (p pipe) Dial(string, string) (net.Conn, error) { return p.conn, nil }

func newEncoder(t testing.TB) *encoder {
	ours, theirs := net.Pipe()
	conf := sarama.NewConfig()
	conf.Version = sarama.MaxVersion
	conf.ApiVersionsRequest = false // nobody answers it
	conf.Net.Proxy.Enable, conf.Net.Proxy.Dialer = true, pipe{ours}
	e := &encoder{broker: sarama.NewBroker("broker:9092"), conn: theirs}
	must(t, e.broker.Open(conf))
	_, err := e.broker.Connected()
	must(t, err)
	t.Cleanup(func() {
		_ = theirs.Close()
		_ = e.broker.Close()
	})
	return e
}

// encode returns the bytes of a batch in a request.
func (e *encoder) encode(b *batch, codec sarama.CompressionCodec) ([]byte, error) {
	pr := &sarama.ProduceRequest{RequiredAcks: sarama.WaitForAll, Timeout: 1000, Version: 10}
	pr.AddBatch("orders", 3, b.encode(codec))
	sent, answered := make(chan error, 1), make(chan struct{})
	go func() {
		sent <- e.broker.AsyncProduce(pr, func(*sarama.ProduceResponse, error) { close(answered) })
	}()
	got := make(chan []byte, 1)
	failed := make(chan error, 1)
	go func() {
		var head [4]byte
		if _, err := io.ReadFull(e.conn, head[:]); err != nil {
			failed <- err
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(head[:]))
		if _, err := io.ReadFull(e.conn, body); err != nil {
			failed <- err
			return
		}
		got <- body
	}()
	if err := <-sent; err != nil {
		return nil, err
	}
	var body []byte
	select {
	case body = <-got:
	case err := <-failed:
		return nil, err
	}
	// Key, version, correlation id, client id, tags.
	in := body[8:]
	in = in[2+int(binary.BigEndian.Uint16(in)):]
	req := kmsg.ProduceRequest{Version: int16(binary.BigEndian.Uint16(body[2:]))}
	if err := req.ReadFrom(in[1:]); err != nil {
		return nil, err
	}
	if len(req.Topics) != 1 || len(req.Topics[0].Partitions) != 1 {
		return nil, errors.New("the request doesn't hold one batch")
	}
	res := answerWith(&req, 0)
	res.SetVersion(req.Version)
	answer := append(make([]byte, 4), body[4:8]...) // length, correlation id
	answer = res.AppendTo(append(answer, 0))        // no tags
	binary.BigEndian.PutUint32(answer, uint32(len(answer)-4))
	if _, err := e.conn.Write(answer); err != nil {
		return nil, err
	}
	<-answered
	return req.Topics[0].Partitions[0].Records, nil
}

// fuzzRecords makes records out of what the fuzzer gives: bits of form say what is null or empty
// in which of them.
func fuzzRecords(key, value []byte, header string, hvalue []byte, ms, step int64, form uint64, n int) []*sink.Record {
	field := func(b []byte, i int) []byte {
		switch form >> (i % 60) & 7 {
		case 0:
			return nil
		case 1:
			return []byte{}
		case 2:
			return bytes.Repeat(b, 3)
		}
		return b
	}
	var rs []*sink.Record
	for i := range n {
		r := &sink.Record{Event: shape.Event{
			Topic: "orders", Key: field(key, 5*i), Value: field(value, 5*i+1), TimestampMs: ms + int64(i)*step,
		}}
		for j := range int(form>>(i%50)) & 3 {
			r.Headers = append(r.Headers, shape.Header{Key: header[:len(header)*j/2], Value: field(hvalue, 7*i+j)})
		}
		rs = append(rs, r)
	}
	return rs
}

// FuzzRecordBatch holds our batches, as sarama encodes them, against the decoder of another
// client: each field of each record comes out as it went in, a repeat has the same bytes, and no
// record is larger than it was taken for.
func FuzzRecordBatch(f *testing.F) {
	f.Add([]byte("o-1"), []byte(`{"total":1}`), "dedupe_key", []byte("x"), int64(1_700_000_000_123), int64(1), uint64(0xffff), uint8(3), uint8(1))
	f.Add([]byte(nil), []byte{}, "", []byte(nil), int64(0), int64(0), uint64(0), uint8(0), uint8(0))
	f.Add([]byte{0xff, 0}, []byte("\x00\xc0\x80"), "ключ", []byte{}, int64(1), int64(-1), uint64(0x123456789abcdef), uint8(7), uint8(3))
	f.Add(make([]byte, 64), make([]byte, 300), "h", make([]byte, 128), maxTimestampMs, -maxTimestampMs/40, uint64(1)<<63-1, uint8(40), uint8(4))
	f.Add([]byte("k"), bytes.Repeat([]byte("ab"), 5000), "same", []byte("1"), int64(253_402_300_799_999), int64(86_400_000), uint64(0b1011011), uint8(200), uint8(2))
	codecs := []sarama.CompressionCodec{sarama.CompressionNone, sarama.CompressionLZ4, sarama.CompressionSnappy, sarama.CompressionZSTD}
	e := newEncoder(f)
	f.Fuzz(func(t *testing.T, key, value []byte, header string, hvalue []byte, ms, step int64, form uint64, n, codec uint8) {
		if len(key)+len(value)+len(header)+len(hvalue) > 64<<10 {
			return // more of the same
		}
		b := newBatch()
		b.bytes = batchOverhead
		for _, r := range fuzzRecords(key, value, header, hvalue, ms, step, form, 1+int(n)) {
			size := recordSize(r)
			if flawOf(r, size) == sound {
				b.records = append(b.records, r)
				b.bytes += size
			}
		}
		if len(b.records) == 0 {
			return
		}
		b.id, b.epoch, b.seq = ms&0xffff, int16(n), int32(form&0x7fffffff)
		c := codecs[int(codec)%len(codecs)]
		raw, err := e.encode(b, c)
		must(t, err)
		if c == sarama.CompressionNone && len(raw) > b.bytes {
			t.Errorf("a batch of %d bytes was taken for %d", len(raw), b.bytes)
		}
		b.unwire() // as before each repeat
		again, err := e.encode(b, c)
		must(t, err)
		if !bytes.Equal(raw, again) {
			t.Errorf("a repeat differs:\n%x\n%x", raw, again)
		}
		checkBatch(t, raw, b)
	})
}

// checkBatch reads a batch with the other client.
func checkBatch(t *testing.T, raw []byte, b *batch) {
	var rb kmsg.RecordBatch
	must(t, rb.ReadFrom(raw))
	last := b.records[0].TimestampMs
	for _, r := range b.records {
		last = max(last, r.TimestampMs)
	}
	if rb.ProducerID != b.id || rb.ProducerEpoch != b.epoch || rb.FirstSequence != b.seq || rb.MaxTimestamp != last ||
		int(rb.LastOffsetDelta) != len(b.records)-1 || int(rb.NumRecords) != len(b.records) {
		t.Fatalf("batch head %+v, want id %d, epoch %d, sequence %d, %d records until %d", rb, b.id, b.epoch, b.seq, len(b.records), last)
	}
	p := &kmsg.FetchResponseTopicPartition{Partition: 3, RecordBatches: raw, HighWatermark: int64(len(b.records))}
	fp, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Topic: "orders", Partition: 3}, p, kgo.DefaultDecompressor(), nil)
	must(t, fp.Err)
	if len(fp.Records) != len(b.records) {
		t.Fatalf("%d records, want %d", len(fp.Records), len(b.records))
	}
	for i, r := range fp.Records {
		if diff := same(b.records[i], r); diff != "" || r.Offset != int64(i) {
			t.Fatalf("record %d at offset %d: %s", i, r.Offset, diff)
		}
	}
}
