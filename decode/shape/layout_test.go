package shape

import (
	"errors"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/decode"
)

func TestNewRefuses(t *testing.T) {
	ok := Config{Table: "public.outbox_events", Topic: "orders"}
	for want, change := range map[string]func(*Config){
		"no table":         func(c *Config) { c.Table = "" },
		"no topic":         func(c *Config) { c.Topic = "" },
		`keys "row"`:       func(c *Config) { c.Keys = "row" },
		`ordering_key "x"`: func(c *Config) { c.Ordering = "x" },
	} {
		cfg := ok
		change(&cfg)
		if s, err := New(cfg); s != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want an error about %s", cfg, err, want)
		}
	}
	_, err := New(Config{Keys: "x", Ordering: "y"})
	if err == nil || strings.Count(err.Error(), "\n") != 3 {
		t.Errorf("%v, want four errors at once", err)
	}
}

func TestCheck(t *testing.T) {
	everything := "id entity_id event_type dedupe_key partition_key ordering_key payload created_at"
	for _, tc := range []struct {
		cfg     Config
		needs   string
		columns string
	}{
		{Config{}, "id entity_id event_type created_at payload", everything},
		{Config{Ordering: OrderingCommit}, "id entity_id event_type payload", everything},
		{Config{Keys: KeysStored}, "event_type dedupe_key partition_key ordering_key payload", everything},
		{Config{Keys: KeysStored, Ordering: OrderingCommit}, "event_type dedupe_key partition_key payload", everything},
	} {
		s := mustNew(t, tc.cfg)
		if err := s.Check(strings.Fields(tc.columns)); err != nil {
			t.Errorf("%+v: %v with every column", tc.cfg, err)
		}
		if err := s.Check(strings.Fields(tc.needs)); err != nil {
			t.Errorf("%+v: %v with every column that it needs", tc.cfg, err)
		}
		for _, gone := range strings.Fields(tc.needs) {
			var have []string
			for _, c := range strings.Fields(tc.columns) {
				if c != gone {
					have = append(have, c)
				}
			}
			var c *ColumnsError
			if err := s.Check(have); !errors.As(err, &c) || strings.Join(c.Missing, " ") != gone {
				t.Errorf("%+v without %s: %v", tc.cfg, gone, err)
			}
		}
		var c *ColumnsError
		if err := s.Check(nil); !errors.As(err, &c) || strings.Join(c.Missing, " ") != tc.needs || !strings.Contains(err.Error(), "columns of outbox public.outbox_events: missing "+c.Missing[0]+", ") {
			t.Errorf("%+v without any: %v", tc.cfg, err)
		}
	}
}

func TestColumnTypes(t *testing.T) {
	for _, tc := range []struct {
		name  string
		cfg   Config
		row   *decode.Tuple
		wrong string // empty: it works
	}{
		{"uuid", Config{}, with(ref, "id", 2950, uuid), "id has type uuid, want bigint, integer or smallint; other ids need ordering_key: commit"},
		{"uuid by position", Config{Ordering: OrderingCommit}, with(ref, "id", 2950, uuid), ""},
		{"uuid, stored", Config{Keys: KeysStored}, with(ref, "id", 2950, uuid), ""},
		{"numeric", Config{}, with(ref, "id", 1700, "1"), "id has type numeric, want bigint, integer or smallint; other ids need ordering_key: commit"},
		{"smallint", Config{}, with(ref, "id", oidInt2, "1"), ""},
		{"domain", Config{}, with(ref, "id", firstOwnOID, "1", "created_at", 20000, "2026-11-30 14:14:50", "headers", 20001, "{}"), ""},
		{"unknown", Config{}, with(ref, "id", 0, "1", "created_at", 0, "2026-11-30 14:14:50+00", "headers", 0, "{}"), ""},
		{"date", Config{}, with(ref, "created_at", 1082, "2026-11-30"), "created_at has type date, want timestamptz, or timestamp, which is read as UTC"},
		{
			"bigint time by position",
			Config{Ordering: OrderingCommit},
			with(ref, "created_at", oidInt8, "1796048090123"),
			"created_at has type bigint, want timestamptz, or timestamp, which is read as UTC",
		},
		{"text headers", Config{}, with(ref, "headers", 25, "{}"), "headers has type text, want jsonb or json"},
		{
			"two",
			Config{},
			with(ref, "id", 600, "(1,2)", "headers", oidBytea, `\x7b7d`),
			"id has type OID 600, want bigint, integer or smallint; other ids need ordering_key: commit; headers has type bytea, want jsonb or json",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := mustNew(t, tc.cfg)
			_, err := s.Event(tc.row, benchPos, commit)
			checked := s.CheckRelation(tc.row.Rel)
			if tc.wrong == "" {
				if err != nil || checked != nil {
					t.Errorf("%v, checked %v, want none", err, checked)
				}
				return
			}
			var c *ColumnsError
			if want := "columns of outbox public.outbox_events: " + tc.wrong; !errors.As(err, &c) || err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
			if checked == nil || checked.Error() != err.Error() {
				t.Errorf("CheckRelation says %v, Event %v", checked, err)
			}
		})
	}
}

// A column that vanishes in mid-stream is nobody's rejected row, and it heals when it is back.
func TestColumnVanishes(t *testing.T) {
	s := mustNew(t, Config{})
	whole, broken := referenceRow(), without(referenceRow(), "payload", "entity_id")
	for range 2 {
		if _, err := s.Event(whole, benchPos, commit); err != nil {
			t.Fatal(err)
		}
		_, err := s.Event(broken, benchPos, commit)
		var c *ColumnsError
		var r *RejectError
		if !errors.As(err, &c) || strings.Join(c.Missing, " ") != "entity_id payload" || errors.As(err, &r) {
			t.Fatalf("%v, want a ColumnsError that names entity_id and payload", err)
		}
	}
}

// Rows of several relations take turns: each is read by its own layout.
func TestLayoutFollowsTheRelation(t *testing.T) {
	s := mustNew(t, Config{})
	a := referenceRow()
	b := without(with(referenceRow(), "id", oidInt8, "2"), "status", "dedupe_key", "attempts") // same id, as after DDL
	c := tuple("payload", 25, "c", "created_at", oidTimestamptz, "2026-11-30 14:14:50+00", "event_type", 25, "t", "entity_id", 25, "e", "id", oidInt8, "3")
	c.Rel.ID++ // another partition
	for range 3 {
		for want, row := range map[string]*decode.Tuple{"order.created:ent-517:123456": a, "order.created:ent-517:2": b, "t:e:3": c} {
			if e, err := s.Event(row, benchPos, commit); err != nil || e.DedupeKey != want {
				t.Errorf("dedupe key %q, %v, want %q", e.DedupeKey, err, want)
			}
		}
	}
	if len(s.layouts) != 2 {
		t.Errorf("%d layouts are kept for 2 relations", len(s.layouts))
	}
}

func TestRowThatDoesNotFitItsRelation(t *testing.T) {
	row := referenceRow()
	row.Values = row.Values[:7]
	_, err := mustNew(t, Config{}).Event(row, benchPos, commit)
	var r *RejectError
	if err == nil || errors.As(err, &r) || err.Error() != "row of public.outbox_events: 7 values for 12 columns" {
		t.Errorf("%v, want an error that isn't the row's", err)
	}
}
