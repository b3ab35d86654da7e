package oracle_test

import (
	"context"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/devenv/envtest"
	"github.com/cdc-relay/cdc-relay/test/lab"
	"github.com/cdc-relay/cdc-relay/test/oracle"
)

// The relay itself is clean on rows that are special in one thing each: two programs that share
// no code, and the hand-written records of control_test.go, agree on every byte of them.
func TestRelayControl(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs the relay")
	}
	l := lab.New(t, envtest.Postgres(t), envtest.Kafka(t).Brokers())
	l.Exec(`alter table outbox_events alter entity_id drop not null, alter payload drop not null, add column headers json;
		alter sequence outbox_events_id_seq restart 1000`)
	relay := l.Start("--tombstones")
	relay.WaitReady()
	for _, r := range controlRows { // each in a transaction of its own
		created := r.created
		if created == "now" {
			created = time.Now().Format(time.RFC3339Nano)
		}
		l.Exec(`insert into outbox_events (id, entity_id, event_type, payload, created_at, headers)
			values ($1, $2, 'made', $3, $4::text::timestamptz, $5)`, r.id, r.entity, r.payload, created, r.headers)
	}
	l.Exec(`insert into outbox_events (id, entity_id, event_type, payload) select 100 + n, 'w-' || n % 7, 'made', to_json(n) from generate_series(1, 50) n order by n`)
	l.Settle()
	if code := relay.Stop(); code != 0 {
		t.Fatalf("the relay ended with %d", code)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	want, err := oracle.FromTable(ctx, l.Conn(), oracle.TableQuery{Table: "outbox_events", Partitions: lab.Partitions, Headers: "headers"})
	if err != nil {
		t.Fatal(err)
	}
	tracked := l.One("current_setting('track_commit_timestamp')") == "on"
	for _, e := range want {
		if e.Promised == oracle.Any || e.Timestamp == 0 && tracked {
			t.Errorf("the table tells too little: %+v", e)
		}
	}
	got, err := oracle.ReadTopic(ctx, l.Brokers, l.Topic)
	if err != nil {
		t.Fatal(err)
	}
	if rep := oracle.Check(want, got); !rep.Once() || rep.Events != len(controlRows)+51 {
		t.Errorf("not clean:\n%s", rep)
	}
}
