package shape

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cdc-relay/cdc-relay/decode"
)

func TestRecordTime(t *testing.T) {
	const us = time.Microsecond
	at := time.Date(2026, 11, 30, 14, 14, 50, 123_456_000, time.UTC)
	for name, tc := range map[string]struct {
		created string
		commit  time.Time
		own     bool // created_at is the timestamp
	}{
		"just before":            {"2026-11-30 14:14:50.123456+00", at.Add(5 * time.Millisecond), true},
		"24 h before":            {"2026-11-30 14:14:50.123456+00", at.Add(24 * time.Hour), true},
		"longer before":          {"2026-11-30 14:14:50.123456+00", at.Add(24*time.Hour + us), false},
		"24 h after":             {"2026-11-30 14:14:50.123456+00", at.Add(-24 * time.Hour), true},
		"longer after":           {"2026-11-30 14:14:50.123456+00", at.Add(-24*time.Hour - us), false},
		"in another zone":        {"2026-11-30 19:44:50.123456+05:30", at.Add(24 * time.Hour), true},
		"years before":           {"1970-01-01 00:00:00+00", at, false},
		"584 years after":        {"2611-06-21 13:49:24.123456+00", at, false}, // 2^64 nanoseconds
		"at the end of time":     {"294276-12-31 23:59:59.999999+00", at, false},
		"before history":         {"4713-01-01 00:00:00+00 BC", at, false},
		"ages from each other":   {"4713-01-01 00:00:00+00 BC", time.Date(294276, 12, 31, 0, 0, 0, 0, time.UTC), false},
		"in 1969, floored":       {"1969-12-31 23:59:59.9985+00", time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC), true},
		"commit in 1969":         {"2026-11-30 14:14:50.123456+00", time.Date(1969, 12, 31, 23, 59, 59, 998_500_000, time.UTC), false},
		"commit with local zone": {"2026-11-30 14:14:50.123456+00", at.In(time.FixedZone("", 20_000)), true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, cfg := range []Config{{}, {Ordering: OrderingCommit}, {Keys: KeysStored}} {
				e, err := mustNew(t, cfg).Event(with(referenceRow(), "created_at", oidTimestamptz, tc.created), benchPos, tc.commit)
				if err != nil {
					t.Fatal(err)
				}
				c, _, _ := parseTimestamp([]byte(tc.created))
				want := tc.commit.UnixMilli()
				if tc.own {
					want = time.Unix(c.sec, int64(c.usec)*1000).UnixMilli()
				}
				if e.TimestampMs != want {
					t.Errorf("%+v: timestamp %d, want %d", cfg, e.TimestampMs, want)
				}
				if !e.CommitTime.Equal(tc.commit) {
					t.Errorf("commit time %v, want %v", e.CommitTime, tc.commit)
				}
			}
		})
	}
}

func TestRecordTimeWithoutCreatedAt(t *testing.T) {
	for name, row := range map[string]*decode.Tuple{
		"NULL":      with(referenceRow(), "created_at", oidTimestamptz, nil),
		"no column": without(referenceRow(), "created_at"),
	} {
		for _, cfg := range []Config{{Ordering: OrderingCommit}, {Keys: KeysStored}} {
			e, err := mustNew(t, cfg).Event(row, benchPos, commit)
			if err != nil || e.TimestampMs != commit.UnixMilli() {
				t.Errorf("%s, %+v: timestamp %d, %v, want the commit time", name, cfg, e.TimestampMs, err)
			}
		}
	}
}

func TestRecordTimeAgreesWithTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		commit := time.UnixMicro(rapid.Int64Range(-1e15, 4e15).Draw(t, "commit")).UTC()
		day := int64(24 * time.Hour / time.Microsecond)
		d := rapid.OneOf(rapid.Int64Range(-2*day, 2*day), rapid.Int64Range(day-2, day+2), rapid.Int64Range(-day-2, -day+2), rapid.Int64Range(-1e16, 1e16)).Draw(t, "distance in µs")
		at := time.UnixMicro(commit.UnixMicro() + d).UTC()
		want := commit.UnixMilli()
		if d >= -day && d <= day {
			want = at.UnixMilli()
		}
		got := recordTime(created{instant{at.Unix(), int32(at.Nanosecond() / 1000)}, true}, commit)
		if got != want {
			t.Fatalf("created %v, committed %v: timestamp %d, want %d", at, commit, got, want)
		}
	})
}

func TestValue(t *testing.T) {
	// What Postgres prints for one document, as json and as jsonb.
	const asJSON = `{"b":1, "a":2,"a":3, "n":1234567890123456789.000100, "e":1E400}`
	// A document that a library reads without an error, and prints otherwise.
	const readable = `{"b":1, "a":2,"a":3, "n":1234567890123456789.000100, "f":1.0, "h":"<&>\u00e9"}`
	const asJSONB = `{"a": 3, "b": 1, "e": 1000000000000000000000000000000, "n": 1234567890123456789.000100}`
	for _, tc := range []struct {
		name string
		oid  int
		text any
		want string
	}{
		{"json", oidJSON, asJSON, asJSON},
		{"json that a library can read", oidJSON, readable, readable},
		{"jsonb", oidJSONB, asJSONB, asJSONB},
		{"json with spaces", oidJSON, " { }\n", " { }\n"},
		{"json null", oidJSONB, "null", "null"}, // a JSON null isn't a NULL
		{"escaped NUL", oidJSON, `{"a": "\u0000"}`, `{"a": "\u0000"}`},
		{"text", 25, `not JSON at all: \x00 ключ`, `not JSON at all: \x00 ключ`},
		{"empty text", 25, "", ""},
		{"xml", 142, "<a/>", "<a/>"},
		{"bytea", oidBytea, `\x00ff5c41`, "\x00\xff\\A"},
		{"empty bytea", oidBytea, `\x`, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, tombstones := range []bool{false, true} {
				e, err := mustNew(t, Config{Tombstones: tombstones}).Event(with(referenceRow(), "payload", tc.oid, tc.text), benchPos, commit)
				if err != nil || string(e.Value) != tc.want || e.Value == nil {
					t.Errorf("value %q (nil: %v), %v, want %q", e.Value, e.Value == nil, err, tc.want)
				}
			}
		})
	}
}

func TestValueNULL(t *testing.T) {
	for _, oid := range []int{oidJSONB, oidBytea, 25} {
		row := with(referenceRow(), "payload", oid, nil)
		e, err := mustNew(t, Config{Tombstones: true}).Event(row, benchPos, commit)
		if err != nil || e.Value != nil || string(e.Key) != "ent-517" {
			t.Errorf("with tombstones: key %q, value %q, %v, want a null value under the event's key", e.Key, e.Value, err)
		}
		_, err = mustNew(t, Config{}).Event(row, benchPos, commit)
		var r *RejectError
		if !errors.As(err, &r) || r.Column != "payload" || r.Cause != "is NULL" {
			t.Errorf("without tombstones: %v, want it rejected", err)
		}
	}
}

func TestValueOfMalformedBytea(t *testing.T) {
	for _, text := range []string{"", `\`, "x", "x00", `\X00`, `\x0`, `\x000`, `\x0g`, `\x 0`, `\x0G`, `\x00FF`, `\000\377\\A`, "plain"} {
		_, err := mustNew(t, Config{}).Event(with(referenceRow(), "payload", oidBytea, text), benchPos, commit)
		var r *RejectError
		if !errors.As(err, &r) || r.Column != "payload" || !strings.Contains(r.Hint, "bytea_output") {
			t.Errorf("bytea %q: %v, want it rejected", text, err)
		}
	}
}

// An error is read by people who may not see the data.
func TestRejectErrorQuotesNothingSecret(t *testing.T) {
	const secret = "hunter2"
	for name, row := range map[string]*decode.Tuple{
		"payload": with(referenceRow(), "payload", oidBytea, secret),
		"headers": with(referenceRow(), "headers", oidJSON, `{"authorization": "`+secret+`"`),
	} {
		_, err := mustNew(t, Config{}).Event(row, benchPos, commit)
		if err == nil || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "event of public.outbox_events, column "+name+": ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
