package checkpoint

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/internal/devenv/envtest"
	"github.com/cdc-relay/cdc-relay/shard"
	"github.com/cdc-relay/cdc-relay/sql"
	"github.com/cdc-relay/cdc-relay/wal"
)

// TestMain has the random tests try more than rapid does by itself; -rapid.checks wins.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "2000"); err != nil {
		panic(err)
	}
	envtest.Main(m)
}

// tables is a database that has been set up, with a superuser's connection to it and the
// configuration of a relay whose role has no more rights than setup gives it.
type tables struct {
	*pgx.Conn
	relay *pgx.ConnConfig
}

func newTables(t *testing.T) *tables {
	t.Helper()
	url := envtest.Database(t)
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	db := &tables{Conn: conn, relay: config.Copy()}
	db.relay.User, db.relay.Password = "relay_"+config.Database, "secret of the relay"
	db.exec(t, `create role `+db.relay.User+` login password 'secret of the relay'`)
	t.Cleanup(func() {
		ctx := context.Background()
		_, _ = conn.Exec(ctx, `drop owned by `+db.relay.User)
		_, _ = conn.Exec(ctx, `drop role `+db.relay.User)
		_ = conn.Close(ctx)
	})
	if _, err := sql.Setup(t.Context(), conn, sql.Options{Role: db.relay.User}); err != nil {
		t.Fatal(err)
	}
	return db
}

func (db *tables) exec(t *testing.T, statement string, args ...any) {
	t.Helper()
	if _, err := db.Exec(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func (db *tables) store(t *testing.T) *Store {
	t.Helper()
	s := NewStore(StoreConfig{Conn: db.relay, Slot: "s", Owner: NewOwner(), Timeout: 5 * time.Second})
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

// stored is what the row holds; db is asked, not the store.
func (db *tables) stored(t *testing.T) wal.LSN {
	t.Helper()
	var l wal.LSN
	if err := db.QueryRow(t.Context(), `select stored::text from cdc_relay.checkpoint where slot = 's'`).Scan(&l); err != nil {
		t.Fatal(err)
	}
	return l
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wants(t *testing.T, err, want error, says string) {
	t.Helper()
	if !errors.Is(err, want) || !strings.Contains(err.Error(), says) {
		t.Errorf("got error %v, want one that is %v and says %q", err, want, says)
	}
}

func TestStoreFirstStart(t *testing.T) {
	db := newTables(t)
	s := db.store(t)
	srv := server(nil)
	row, err := s.Read(t.Context())
	if row != nil || err != nil {
		t.Fatalf("read %v, %v before there is a row", row, err)
	}
	_, err = s.Take(t.Context())
	wants(t, err, ErrChanged, `"s"`)

	must(t, s.Create(t.Context(), srv, "pub"))
	must(t, s.Create(t.Context(), srv, "pub")) // a crash, and again
	_, err = s.Take(t.Context())
	wants(t, err, ErrChanged, "") // creating is not live
	row, err = s.Read(t.Context())
	must(t, err)
	if row.State != Creating || row.SystemID != "sys" || row.Timeline != 1 || row.Publication != "pub" || row.UpdatedAt.IsZero() || row.Owner != (Owner{}) {
		t.Errorf("created %+v", row)
	}
	must(t, s.GoLive(t.Context(), srv, 0x16_B374D848))
	wants(t, s.GoLive(t.Context(), srv, 1), ErrChanged, "")
	wants(t, s.Create(t.Context(), srv, "pub"), ErrChanged, "")
	stored, err := s.Take(t.Context())
	must(t, err)
	if stored != 0x16_B374D848 {
		t.Errorf("took the row at %s", stored)
	}
	row, err = s.Read(t.Context())
	must(t, err)
	if row.State != Live || row.Stored != stored || row.Owner != s.cfg.Owner {
		t.Errorf("live %+v, owner is %s", row, s.cfg.Owner)
	}
	ls, err := s.Lineages(t.Context(), srv)
	must(t, err)
	if len(ls) != 1 || ls[0] != (wal.Lineage{No: 1, From: 0}) {
		t.Errorf("lineages %v", ls)
	}

	db.exec(t, `update cdc_relay.checkpoint set state = 'retired'`)
	must(t, s.Create(t.Context(), server(func(s *Server) { s.SystemID = "upgraded" }), "other"))
	row, err = s.Read(t.Context())
	must(t, err)
	if row.State != Creating || row.SystemID != "upgraded" || row.Stored != 0 || row.Owner != (Owner{}) || row.Publication != "other" {
		t.Errorf("created again %+v", row)
	}
	if ls, err = s.Lineages(t.Context(), server(func(s *Server) { s.SystemID = "upgraded" })); err != nil || len(ls) != 1 || ls[0].No != 2 {
		t.Errorf("lineages of the new system %v, %v", ls, err)
	}
}

func TestStoreSave(t *testing.T) {
	db := newTables(t)
	a, b := db.store(t), db.store(t)
	must(t, a.Adopt(t.Context(), server(nil), 100, "pub"))
	wants(t, b.Adopt(t.Context(), server(nil), 500, "pub"), ErrChanged, "")
	wants(t, a.Save(t.Context(), 200), ErrOwnerLost, "owned by nobody")
	wants(t, a.CheckOwner(t.Context()), ErrOwnerLost, "")

	_, err := a.Take(t.Context())
	must(t, err)
	must(t, a.CheckOwner(t.Context()))
	must(t, a.Save(t.Context(), 200))
	must(t, a.Save(t.Context(), 200)) // an answer was lost
	wants(t, a.Save(t.Context(), 199), ErrOwnerLost, "stored 0/C8")
	if got := db.stored(t); got != 200 {
		t.Errorf("stored %s", got)
	}

	stored, err := b.Take(t.Context())
	must(t, err)
	if stored != 200 {
		t.Errorf("the second relay took the row at %s", stored)
	}
	wants(t, a.Save(t.Context(), 300), ErrOwnerLost, b.cfg.Owner.String())
	wants(t, a.CheckOwner(t.Context()), ErrOwnerLost, "")
	must(t, b.Save(t.Context(), 250))
	if got := db.stored(t); got != 250 {
		t.Errorf("stored %s, the first relay wrote on", got)
	}
	// LSNs compare as numbers, not as text.
	must(t, b.Save(t.Context(), 0xF_00000000))
	must(t, b.Save(t.Context(), 0x10_00000000))

	db.exec(t, `update cdc_relay.checkpoint set state = 'retired'`)
	wants(t, b.Save(t.Context(), 0x11_00000000), ErrOwnerLost, "retired")
	db.exec(t, `delete from cdc_relay.checkpoint`)
	wants(t, b.Save(t.Context(), 0x12_00000000), ErrOwnerLost, "gone")
	wants(t, b.CheckOwner(t.Context()), ErrOwnerLost, "gone")
}

func TestStoreFailover(t *testing.T) {
	db := newTables(t)
	s := db.store(t)
	must(t, s.Adopt(t.Context(), server(nil), 100, "pub"))
	_, err := s.Take(t.Context())
	must(t, err)
	from, err := s.Read(t.Context())
	must(t, err)
	must(t, s.Save(t.Context(), 150))
	wants(t, s.Failover(t.Context(), from, promoted(2), 300), ErrChanged, "") // it was decided on an older row
	if ls, err := s.Lineages(t.Context(), promoted(2)); err != nil || len(ls) != 1 {
		t.Errorf("a failover that didn't happen left the lineages %v, %v", ls, err)
	}
	from, err = s.Read(t.Context())
	must(t, err)
	must(t, s.Failover(t.Context(), from, promoted(2), 300))
	row, err := s.Read(t.Context())
	must(t, err)
	if row.Timeline != 3 || row.Stored != 300 || row.State != Live || row.Owner != (Owner{}) {
		t.Errorf("after the failover %+v", row)
	}
	wants(t, s.Save(t.Context(), 400), ErrOwnerLost, "nobody") // the old session is over
	ls, err := s.Lineages(t.Context(), promoted(2))
	must(t, err)
	if got := fmt.Sprint(ls); got != "[{1 0/0} {2 0/1F4} {3 0/258}]" {
		t.Errorf("lineages %s", got)
	}
	// The old primary, still up, knows only its own.
	if ls, err = s.Lineages(t.Context(), server(nil)); err != nil || len(ls) != 1 {
		t.Errorf("lineages of the old primary %v, %v", ls, err)
	}
}

// TestStoreLineagesAtOnce: relays of several slots follow a failover at the same time.
func TestStoreLineagesAtOnce(t *testing.T) {
	db := newTables(t)
	var wg sync.WaitGroup
	for i := range 6 {
		s := NewStore(StoreConfig{Conn: db.relay, Slot: fmt.Sprint("slot", i), Owner: NewOwner()})
		wg.Go(func() {
			defer s.Close(context.Background())
			if err := s.Adopt(context.Background(), promoted(int32(i%2)), 100, "pub"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	var n, numbers int
	must(t, db.QueryRow(t.Context(), `select count(*), count(distinct no) from cdc_relay.lineage`).Scan(&n, &numbers))
	if n < 1 || n > 2 || n != numbers {
		t.Errorf("%d lineages with %d numbers", n, numbers)
	}
}

// TestStoreSyncCommit: positions wait for this server only, since a standby that is away must not
// stop them; what identity rests on waits as the server is set up.
func TestStoreSyncCommit(t *testing.T) {
	db := newTables(t)
	db.exec(t, `create table public.seen (tab text, how text);
		create function public.see() returns trigger language plpgsql security definer as $$
		begin insert into public.seen values (tg_table_name, current_setting('synchronous_commit')); return new; end $$;
		create trigger see before insert or update on cdc_relay.checkpoint for each row execute function public.see();
		create trigger see before insert or update on cdc_relay.lineage for each row execute function public.see();
		create trigger see before insert or update on cdc_relay.contract for each row execute function public.see()`)
	seen := func() string {
		t.Helper()
		var got string
		must(t, db.QueryRow(t.Context(), `select coalesce(string_agg(distinct tab || ' ' || how, ', ' order by tab || ' ' || how), 'nothing') from public.seen`).Scan(&got))
		db.exec(t, `delete from public.seen`)
		return got
	}
	s := db.store(t)
	must(t, s.Create(t.Context(), server(nil), "pub"))
	must(t, s.GoLive(t.Context(), server(nil), 100))
	if got := seen(); got != "checkpoint on, lineage on" {
		t.Errorf("first start was written with %s", got)
	}
	for range 2 {
		_, err := s.PinContract(t.Context(), contract)
		must(t, err)
		if got := seen(); !strings.Contains(got, "contract on") {
			t.Errorf("contract was written with %s: a reader must wait like the writer", got)
		}
	}
	_, err := s.Take(t.Context())
	must(t, err)
	must(t, s.Save(t.Context(), 200))
	if got := seen(); got != "checkpoint local" {
		t.Errorf("position was written with %s", got)
	}
	var after string
	must(t, s.Do(t.Context(), func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `show synchronous_commit`).Scan(&after)
	}))
	if after != "on" {
		t.Errorf("the connection is left at %s", after)
	}
}

var contract = shard.Contract{
	Topic: "orders", No: 1, Lineage: 1, From: 0x16_B374D848, PartitionCount: 12, Hash: shard.SHA256,
	Keys: "derived", OrderingKey: "row", ValueFormat: "raw",
}

func TestStoreContracts(t *testing.T) {
	db := newTables(t)
	s, other := db.store(t), db.store(t)
	must(t, s.Create(t.Context(), server(nil), "pub"))
	got, err := s.PinContract(t.Context(), contract)
	must(t, err)
	if fmt.Sprint(got) != fmt.Sprint(contract) || got.Mapping != nil {
		t.Errorf("pinned %+v, want %+v", got, contract)
	}
	late := contract
	late.PartitionCount, late.From = 24, 7
	if got, err = other.PinContract(t.Context(), late); err != nil || got.PartitionCount != 12 || got.From != contract.From {
		t.Errorf("the second relay got %+v, %v; want what the first pinned", got, err)
	}
	pending := contract
	pending.No, pending.Pending, pending.Mapping = 2, true, []byte(`{"id": "event_id"}`)
	_, err = s.PinContract(t.Context(), pending)
	must(t, err)
	_, err = s.PinContract(t.Context(), shard.Contract{Topic: "other", No: 1, Lineage: 1, PartitionCount: 1, Hash: shard.SHA256})
	must(t, err)

	cs, err := s.Contracts(t.Context(), "orders")
	must(t, err)
	if len(cs) != 2 || cs[0].Pending || !cs[1].Pending || cs[1].Lineage != 0 || cs[1].From != 0 || string(cs[1].Mapping) != `{"id": "event_id"}` {
		t.Errorf("contracts %+v", cs)
	}
	if c, ok := cs.At("orders", 1, contract.From); !ok || c.No != 1 || len(shard.Diff(c, contract)) > 0 {
		t.Errorf("in force is %+v, %v", c, ok)
	}
	if cs, err = s.Contracts(t.Context(), "none"); err != nil || len(cs) != 0 {
		t.Errorf("contracts of no topic: %v, %v", cs, err)
	}
	// A contract can't rest on a lineage that nobody wrote down.
	orphan := contract
	orphan.Topic, orphan.Lineage = "orphan", 9
	if _, err := s.PinContract(t.Context(), orphan); err == nil {
		t.Error("pinned a contract at an unknown lineage")
	}
}

func TestMissingLineages(t *testing.T) {
	const sys = "sys"
	first := lineage{1, sys, 1, 0}
	for name, c := range map[string]struct {
		have []lineage
		srv  Server
		want string
	}{
		"nothing known":              {nil, server(nil), "[{1 sys 1 0/0}]"},
		"nothing known, promoted":    {nil, promoted(2), "[{1 sys 3 0/0}]"},
		"known":                      {[]lineage{first}, server(nil), "[]"},
		"promoted":                   {[]lineage{first}, promoted(1), "[{2 sys 2 0/1F4}]"},
		"promoted twice unseen":      {[]lineage{first}, promoted(2), "[{2 sys 2 0/1F4} {3 sys 3 0/258}]"},
		"promoted twice, one by one": {[]lineage{first, {2, sys, 2, 500}}, promoted(2), "[{3 sys 3 0/258}]"},
		"known at a later one":       {[]lineage{{1, sys, 2, 0}}, promoted(2), "[{2 sys 3 0/258}]"},
		"known, history behind it":   {[]lineage{{1, sys, 3, 0}}, promoted(2), "[]"},
		"other systems count":        {[]lineage{first, {7, "old", 1, 0}}, promoted(1), "[{8 sys 2 0/1F4}]"},
		"new system":                 {[]lineage{{1, "old", 1, 0}}, server(nil), "[{2 sys 1 0/0}]"},
		"other branch":               {[]lineage{first, {2, sys, 2, 500}}, Server{SystemID: sys, Timeline: 3, History: []Switch{{1, 700}}}, "[{3 sys 3 0/2BC}]"},
	} {
		if got := fmt.Sprint(missingLineages(c.have, c.srv)); got != c.want {
			t.Errorf("%s: adds %s, want %s", name, got, c.want)
		}
	}
}

// TestLineagesDontDependOnUptime: a relay that followed each promotion and one that slept through
// them number every commit the same.
func TestLineagesDontDependOnUptime(t *testing.T) {
	awake := []lineage{{1, "sys", 1, 0}}
	for n := range int32(4) {
		awake = append(awake, missingLineages(awake, promoted(n))...)
	}
	slept := []lineage{{1, "sys", 1, 0}}
	slept = append(slept, missingLineages(slept, promoted(3))...)
	for commit := wal.LSN(0); commit < 900; commit += 50 {
		a, b := of(awake, promoted(3)).At(commit), of(slept, promoted(3)).At(commit)
		if a != b || a == 0 {
			t.Errorf("the commit at %s has lineage %d and %d", commit, a, b)
		}
	}
}
