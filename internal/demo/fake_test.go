package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A test binary that is started with fakeEnv is a relay: a naive one, which polls the slot by
// SQL, with a fault of the test's choice. Its value is the fault, or none.
const fakeEnv = "DEMO_TEST_RELAY"

// fakeRelay is what the binary then does. It takes the command line of the real one.
func fakeRelay(fault string) error {
	if len(os.Args) != 6 || os.Args[1] != "run" || os.Args[2] != "--publication" || os.Args[4] != "--topic" {
		return fmt.Errorf("the command line is %q", os.Args)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	conn, err := pgx.Connect(context.Background(), os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(os.Getenv("KAFKA_BROKERS"), ",")...),
		kgo.DefaultProduceTopic(os.Args[5]), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	f := &fake{fault: fault, conn: conn, client: client, relations: map[uint32]*pglogrepl.RelationMessage{}, held: map[string]*kgo.Record{}}
	return f.run(ctx)
}

type fake struct {
	fault     string
	conn      *pgx.Conn
	client    *kgo.Client
	relations map[uint32]*pglogrepl.RelationMessage
	published int
	held      map[string]*kgo.Record
}

const fakeSlot = "fake_slot"

func (f *fake) run(stopping context.Context) error {
	ctx := context.Background()
	if f.fault == "dead" {
		return errors.New("last words of a relay")
	}
	_, err := f.conn.Exec(ctx, `INSERT INTO cdc_relay.checkpoint (slot, state, system_id, timeline, stored, publication)
		VALUES ($1, 'live', '', 1, '0/1', $2) ON CONFLICT DO NOTHING`, fakeSlot, os.Args[3])
	if err == nil {
		_, err = f.conn.Exec(ctx, `SELECT pg_create_logical_replication_slot($1, 'pgoutput') WHERE NOT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = $1)`, fakeSlot)
	}
	for err == nil {
		var n int
		if n, err = f.once(ctx); n == 0 && err == nil {
			if stopping.Err() != nil {
				if f.fault == "hangs" {
					select {}
				}
				return nil
			}
			err = wait(ctx, time.Now().Add(5*time.Millisecond))
		}
	}
	return err
}

// once publishes what the slot has, and stores how far that is.
func (f *fake) once(ctx context.Context) (int, error) {
	rows, err := f.conn.Query(ctx, `SELECT lsn::text, data FROM pg_logical_slot_peek_binary_changes($1, NULL, 500, 'proto_version', '1', 'publication_names', $2)`, fakeSlot, os.Args[3])
	if err != nil {
		return 0, err
	}
	var at, end string
	var data []byte
	var records []*kgo.Record
	_, err = pgx.ForEachRow(rows, []any{&at, &data}, func() error {
		m, err := pglogrepl.Parse(data)
		switch m := m.(type) {
		case *pglogrepl.RelationMessage:
			f.relations[m.RelationID] = m
		case *pglogrepl.InsertMessage:
			records = append(records, f.record(m)...)
		case *pglogrepl.CommitMessage:
			end = m.TransactionEndLSN.String()
		}
		return err
	})
	if err != nil || end == "" {
		return 0, err
	}
	if err := f.client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return 0, err
	}
	if f.published > 300 && f.fault == "dies" {
		return 0, errors.New("last words of a relay")
	}
	if _, err := f.conn.Exec(ctx, `UPDATE cdc_relay.checkpoint SET stored = $1::pg_lsn WHERE slot = $2`, end, fakeSlot); err != nil {
		return 0, err
	}
	_, err = f.conn.Exec(ctx, `SELECT pg_replication_slot_advance($1, $2::pg_lsn)`, fakeSlot, end)
	return len(records), err
}

// record makes the record of a row, or what the fault makes of it: the 50th event is hit.
func (f *fake) record(m *pglogrepl.InsertMessage) []*kgo.Record {
	col := map[string]string{}
	for i, c := range f.relations[m.RelationID].Columns {
		col[c.Name] = string(m.Tuple.Columns[i].Data)
	}
	dedupe := col["event_type"] + ":" + col["entity_id"] + ":" + col["id"]
	r := &kgo.Record{
		Key: []byte(col["entity_id"]), Value: []byte(col["payload"]),
		Partition: partition(col["entity_id"], partitions), Timestamp: time.UnixMilli(1),
		Headers: []kgo.RecordHeader{
			{Key: "event_id", Value: []byte(dedupe)},
			{Key: "event_type", Value: []byte(col["event_type"])},
			{Key: "dedupe_key", Value: []byte(dedupe)},
			{Key: "ordering_key", Value: []byte(col["ordering_key"])},
		},
	}
	f.published++
	again := *r
	switch hit := f.published == 50; {
	case f.fault == "loses" && dedupe[:strings.LastIndexByte(dedupe, ':')] == "order.created:order-7": // in each run
		return nil
	case hit && f.fault == "moves":
		r.Partition = (r.Partition + 1) % partitions
	case hit && f.fault == "changes":
		r.Value = []byte(`{"version":1}`)
	case hit && f.fault == "invents":
		again.Headers = append([]kgo.RecordHeader{{Key: "dedupe_key", Value: []byte("order.created:order-1:99999999")}}, again.Headers...)
		return []*kgo.Record{r, &again}
	case hit && f.fault == "repeats":
		return []*kgo.Record{r, &again}
	case hit && f.fault == "repeats elsewhere":
		again.Partition = (r.Partition + 1) % partitions
		return []*kgo.Record{r, &again}
	case hit && f.fault == "repeats otherwise":
		again.Timestamp = time.UnixMilli(2)
		return []*kgo.Record{r, &again}
	case f.fault == "swaps" && strings.HasSuffix(col["entity_id"], "3"):
		// The second event of an order waits until the third has passed.
		held := f.held[col["entity_id"]]
		delete(f.held, col["entity_id"])
		if strings.Contains(col["payload"], `"version": 2`) {
			f.held[col["entity_id"]] = r
			return nil
		}
		if held != nil {
			return []*kgo.Record{r, held}
		}
	}
	return []*kgo.Record{r}
}
