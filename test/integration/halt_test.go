package integration

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/devenv/envtest"
	"github.com/cdc-relay/cdc-relay/test/lab"
	"github.com/cdc-relay/cdc-relay/wal"
)

// TestWayPastAHalt follows the procedure that GUARANTEES gives for an event that can't be published.
func TestWayPastAHalt(t *testing.T) {
	t.Parallel()
	l := lab.New(t, envtest.Postgres(t), envtest.Kafka(t).Brokers())
	l.Exec("alter table outbox_events alter event_type drop not null")
	relay := l.Start()
	relay.WaitReady()
	l.Insert(3, "a")
	l.Settle()
	l.Exec("insert into outbox_events (entity_id, payload) values ('bad', '{}')")
	l.Insert(5, "b")
	relay.WaitHTTP("/readyz", http.StatusServiceUnavailable)
	if code := relay.Stop(); code != 1 {
		t.Errorf("stop while halted: exit code %d, want 1", code)
	}
	if n := l.Records(); n != 4 {
		t.Errorf("%d records, want the 3 and the sentinel: nothing may pass the bad row", n)
	}
	found := regexp.MustCompile(`"position":"([^"]+)"`).FindStringSubmatch(relay.Log())
	if found == nil {
		t.Fatalf("the log doesn't name the position:\n%s", relay.Log())
	}
	pos, err := wal.ParsePosition(found[1])
	if err != nil {
		t.Fatal(err)
	}
	l.Exec("update cdc_relay.checkpoint set stored = $1::text::pg_lsn + 1 where slot = $2", pos.Commit.String(), l.Slot)
	l.Exec("delete from outbox_events where event_type is null")
	l.Start().WaitReady()
	l.Settle()
	once(t, l)
}

// TestRenamedOutbox: the publication still holds the table, and its rows come under another name.
func TestRenamedOutbox(t *testing.T) {
	for _, c := range []struct{ name, rename, to, back string }{
		{"table", "alter table outbox_events rename to events2", "events2", "alter table events2 rename to outbox_events"},
		{"schema", "create schema s2; alter table outbox_events set schema s2", "s2.outbox_events", "alter table s2.outbox_events set schema public"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := lab.New(t, envtest.Postgres(t), envtest.Kafka(t).Brokers())
			l.Start().WaitReady()
			l.Insert(10, "a")
			l.Settle()
			l.Exec(c.rename)
			l.Exec("insert into " + c.to + " (entity_id, event_type, payload) select 'r', 'e', '{}' from generate_series(1, 5)")
			l.WaitRecords(16)
			l.Exec(c.back)
			l.Settle()
			once(t, l)
		})
	}
}

// TestAttachedTable: a table that was no outbox becomes a partition of it, under the same name and OID.
func TestAttachedTable(t *testing.T) {
	t.Parallel()
	l := lab.New(t, envtest.Postgres(t), envtest.Kafka(t).Brokers())
	columns := "id bigserial, entity_id text, event_type text, payload jsonb, created_at timestamptz default clock_timestamp()"
	l.Exec("drop publication outbox; drop table outbox_events; create table outbox_events (" + columns + ") partition by range (id)")
	l.Exec("create table part1 partition of outbox_events for values from (0) to (11); create table part2 (" + columns + ")")
	l.Exec("create publication outbox for table outbox_events, part2 with (publish = 'insert')")
	l.Start("--table", "public.outbox_events").WaitReady()
	insert := " (entity_id, event_type, payload) select 'e', 't', '{}' from generate_series(1, 10)"
	l.Exec("insert into part2" + insert) // another table's, for now
	l.Exec("insert into outbox_events" + insert)
	l.WaitRecords(10)
	l.Exec("delete from part2; alter table outbox_events attach partition part2 for values from (11) to (100000)")
	l.Exec("insert into outbox_events" + insert)
	l.WaitRecords(20)
	l.Settle()
	if n := l.Records(); n != 21 {
		t.Errorf("%d records, want the 20 and the sentinel", n)
	}
}

// TestMissingColumnHolds: a relay that ended at a row which it can't read would be started again, and
// publish what comes before that row in its transaction each time.
func TestMissingColumnHolds(t *testing.T) {
	t.Parallel()
	l := lab.New(t, envtest.Postgres(t), envtest.Kafka(t).Brokers())
	relay := l.Start()
	relay.WaitReady()
	l.Exec(`begin;
		insert into outbox_events (entity_id, event_type, payload) select 'r', 'e', '1' from generate_series(1, 100);
		alter table outbox_events drop column payload;
		insert into outbox_events (entity_id, event_type) values ('r', 'e');
		commit`)
	l.WaitRecords(100)
	relay.WaitHTTP("/readyz", http.StatusServiceUnavailable)
	watch(t, time.Second, func() {})
	if n := l.Records(); n != 100 {
		t.Errorf("%d records, want the 100 before the row without payload, once", n)
	}
	if log := relay.Log(); !strings.Contains(log, "payload") {
		t.Errorf("the log doesn't name the column:\n%s", log)
	}
}

// TestStopUnderAHaltOfTheSink: a record that Kafka refuses holds everything up, but not a stop.
func TestStopUnderAHaltOfTheSink(t *testing.T) {
	t.Parallel()
	l := lab.New(t, envtest.Postgres(t), envtest.Kafka(t).Brokers())
	relay := l.Start()
	relay.WaitReady()
	// 2 MB, while a topic takes 1 MiB by default; random, so that compression doesn't help.
	l.Exec(`insert into outbox_events (entity_id, event_type, payload)
		select 'big', 'b', to_jsonb(string_agg(md5(random()::text), '')) from generate_series(1, 64000)`)
	relay.WaitHTTP("/readyz", http.StatusServiceUnavailable)
	began := time.Now()
	if code := relay.Stop(); code != 1 {
		t.Errorf("exit code %d, want 1: an event is left", code)
	}
	if d := time.Since(began); d > 10*time.Second {
		t.Errorf("the stop took %s, and waiting mends nothing", d)
	}
	if strings.Contains(relay.Log(), "raise shutdown.drain") {
		t.Errorf("the advice is one that can't help:\n%s", relay.Log())
	}
}

// TestOtherPublicationOnTheSlot: what the first one sends and the second one doesn't would be stepped
// over for ever.
func TestOtherPublicationOnTheSlot(t *testing.T) {
	t.Parallel()
	l := lab.New(t, envtest.Postgres(t), envtest.Kafka(t).Brokers())
	relay := l.Start()
	relay.WaitReady()
	l.Insert(1, "a")
	l.Settle()
	if code := relay.Stop(); code != 0 {
		t.Fatalf("clean stop: exit code %d", code)
	}
	l.Exec("create table other (like outbox_events); create publication other for table other with (publish = 'insert')")
	l.Insert(5, "a")
	stored := l.Stored()
	wrong := l.Start("--publication", "other")
	if code := wrong.Exit(); code != 2 || !strings.Contains(wrong.Log(), `publication "outbox"`) {
		t.Errorf("exit code %d, want 2 and the publication that the position belongs to:\n%s", code, wrong.Log())
	}
	if got := l.Stored(); got != stored {
		t.Errorf("stored moved from %s to %s", stored, got)
	}
	l.Start().WaitReady()
	l.Settle()
	once(t, l)
}
