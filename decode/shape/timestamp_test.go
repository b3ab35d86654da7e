package shape

import (
	"encoding/csv"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// readCSV returns the rows of a file of testdata, without its heading.
func readCSV(t testing.TB, name string, heading ...string) [][]string {
	t.Helper()
	f, err := os.Open("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(rows[0], ","); got != strings.Join(heading, ",") {
		t.Fatalf("%s has the columns %s", name, got)
	}
	return rows[1:]
}

func number(t testing.TB, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// testdata/timestamps.csv is what a Postgres 15 printed in six time zones, with the seconds
// that it counted itself.
func TestParseTimestampAsPostgresPrints(t *testing.T) {
	rows := readCSV(t, "timestamps.csv", "text", "type", "unix_seconds", "microseconds")
	if len(rows) < 400 {
		t.Errorf("only %d rows", len(rows))
	}
	for _, r := range rows {
		want := instant{number(t, r[2]), int32(number(t, r[3]))}
		wantZone := zoneSome
		if r[1] == "timestamp" {
			wantZone = zoneNone
		}
		if got, z, ok := parseTimestamp([]byte(r[0])); !ok || got != want || z != wantZone {
			t.Errorf("parseTimestamp(%q) = %v, zone %d, %v, want %v, zone %d", r[0], got, z, ok, want, wantZone)
		}
	}
}

// printTimestamp prints a time as Postgres does, at the offset of tm's zone.
func printTimestamp(tm time.Time) string {
	year, era := tm.Year(), ""
	if year < 1 {
		year, era = 1-year, " BC"
	}
	s := fmt.Sprintf("%04d-%02d-%02d %02d:%02d:%02d", year, tm.Month(), tm.Day(), tm.Hour(), tm.Minute(), tm.Second())
	if us := tm.Nanosecond() / 1000; us != 0 {
		s += strings.TrimRight(fmt.Sprintf(".%06d", us), "0")
	}
	_, offset := tm.Zone()
	sign := "+"
	if offset < 0 {
		sign, offset = "-", -offset
	}
	s += fmt.Sprintf("%s%02d", sign, offset/3600)
	if offset%3600 != 0 {
		s += fmt.Sprintf(":%02d", offset/60%60)
	}
	if offset%60 != 0 {
		s += fmt.Sprintf(":%02d", offset%60)
	}
	return s + era
}

func checkAgainstTime(t interface{ Fatalf(string, ...any) }, tm time.Time) {
	text := printTimestamp(tm)
	got, z, ok := parseTimestamp([]byte(text))
	want := instant{tm.Unix(), int32(tm.Nanosecond() / 1000)}
	if !ok || got != want || z != zoneSome {
		t.Fatalf("parseTimestamp(%q) = %v, zone %d, %v, want %v", text, got, z, ok, want)
	}
	if got.ms() != tm.UnixMilli() {
		t.Fatalf("%q is %d ms, want %d", text, got.ms(), tm.UnixMilli())
	}
}

func TestParseTimestampAgreesWithTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		year := rapid.OneOf(rapid.IntRange(-4713, 294276), rapid.IntRange(-999_997, 999_997), rapid.IntRange(-5, 5), rapid.IntRange(1900, 2100)).Draw(t, "year")
		day := rapid.IntRange(0, 365).Draw(t, "day")
		offset := rapid.OneOf(rapid.Just(0), rapid.IntRange(-57599, 57599)).Draw(t, "offset")
		usec := rapid.Int64Range(0, 86_400_000_000-1).Draw(t, "microseconds of the day")
		tm := time.Date(year, 1, 1+day, 0, 0, 0, 0, time.UTC).Add(time.Duration(usec) * time.Microsecond)
		checkAgainstTime(t, tm.In(time.FixedZone("", offset)))
	})
}

func TestParseTimestampOnEveryDayOfTheCalendar(t *testing.T) {
	for _, years := range [][2]int{{-401, 5}, {1599, 2401}, {9999, 10001}} {
		for tm := time.Date(years[0], 1, 1, 23, 59, 59, 999_999_000, time.UTC); tm.Year() <= years[1]; tm = tm.AddDate(0, 0, 1) {
			checkAgainstTime(t, tm)
		}
	}
}

func TestParseTimestampRefuses(t *testing.T) {
	for _, text := range []string{
		"", " ", "infinity", "-infinity", "now", "epoch", "NULL",
		"2026-11-30", "2026-11-30 14:14", "14:14:50+00",
		"2026-11-30T14:14:50+00", "2026-11-30 14:14:50Z", "2026-11-30 14:14:50 UTC", "2026/11/30 14:14:50+00",
		"30.11.2026 14:14:50 UTC", "Mon Nov 30 14:14:50 2026 UTC", // other DateStyles
		" 2026-11-30 14:14:50+00", "2026-11-30 14:14:50+00 ", "2026-11-30 14:14:50+00 AD", "2026-11-30 14:14:50+00BC", "2026-11-30 14:14:50 BC+00",
		"+2026-11-30 14:14:50+00", "-2026-11-30 14:14:50+00",
		"0000-11-30 14:14:50+00", "0000-11-30 14:14:50+00 BC", "026-11-30 14:14:50+00", "1234567-11-30 14:14:50+00",
		"2026-00-30 14:14:50+00", "2026-13-30 14:14:50+00", "2026-11-00 14:14:50+00", "2026-11-31 14:14:50+00",
		"2026-02-29 14:14:50+00", "1900-02-29 14:14:50+00", "0002-02-29 14:14:50+00 BC", "2026-1-30 14:14:50+00", "2026-011-30 14:14:50+00",
		"2026-11-30 24:00:00+00", "2026-11-30 14:60:50+00", "2026-11-30 14:14:60+00", "2026-11-30 4:14:50+00",
		"2026-11-30 14:14:50.+00", "2026-11-30 14:14:50.1234567+00", "2026-11-30 14:14:50,5+00", "2026-11-30 14:14:50.-1+00",
		"2026-11-30 14:14:50+", "2026-11-30 14:14:50+0", "2026-11-30 14:14:50+000", "2026-11-30 14:14:50+0530", "2026-11-30 14:14:50+05:3",
		"2026-11-30 14:14:50+05:60", "2026-11-30 14:14:50+05:30:60", "2026-11-30 14:14:50+16", "2026-11-30 14:14:50-16", "2026-11-30 14:14:50+05:30:00:00",
		"2026-11-30 14:14:50\x00+00", "٢٠٢٦-11-30 14:14:50+00",
	} {
		if got, _, ok := parseTimestamp([]byte(text)); ok {
			t.Errorf("parseTimestamp(%q) = %v, want it refused", text, got)
		}
	}
}

func TestParseTimestampOffsets(t *testing.T) {
	for text, want := range map[string]int64{
		"1970-01-01 00:00:00":           0,
		"1970-01-01 00:00:00+00":        0,
		"1970-01-01 00:00:00-00":        0,
		"1970-01-01 00:00:00-00:30":     1800, // the sign is that of the whole
		"1970-01-01 00:00:00+00:30":     -1800,
		"1970-01-01 00:00:00-00:00:01":  1,
		"1970-01-01 00:00:00+15:59:59":  -57599,
		"1970-01-01 00:00:00-15:59:59":  57599,
		"1970-01-01 00:00:00.000000+00": 0,
	} {
		if got, _, ok := parseTimestamp([]byte(text)); !ok || got != (instant{want, 0}) {
			t.Errorf("parseTimestamp(%q) = %v, %v, want %d", text, got, ok, want)
		}
	}
}

func TestParseTimestampDoesNotAllocate(t *testing.T) {
	text := []byte("294276-12-31 23:59:59.999999+05:53:28")
	if n := testing.AllocsPerRun(100, func() { parseTimestamp(text) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

var timestampForm = regexp.MustCompile(`^(\d{4,6})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?(?:([+-])(\d\d)(?::(\d\d)(?::(\d\d))?)?)?( BC)?$`)

// referenceTimestamp reads the same texts by a regular expression and package time.
func referenceTimestamp(text string) (instant, bool) {
	m := timestampForm.FindStringSubmatch(text)
	if m == nil {
		return instant{}, false
	}
	n := make([]int, len(m))
	for i := range m {
		n[i], _ = strconv.Atoi(m[i])
	}
	year, written := n[1], n[1]
	if m[12] != "" {
		year = 1 - year
	}
	usec, _ := strconv.Atoi((m[7] + "000000")[:6])
	offset := n[9]*3600 + n[10]*60 + n[11]
	if m[8] == "-" {
		offset = -offset
	}
	tm := time.Date(year, time.Month(n[2]), n[3], n[4], n[5], n[6], usec*1000, time.UTC)
	same := tm.Year() == year && int(tm.Month()) == n[2] && tm.Day() == n[3] && tm.Hour() == n[4] && tm.Minute() == n[5] && tm.Second() == n[6]
	if written == 0 || !same || n[9] > 15 || n[10] > 59 || n[11] > 59 {
		return instant{}, false
	}
	return instant{tm.Unix() - int64(offset), int32(usec)}, true
}

func FuzzParseTimestamp(f *testing.F) {
	for _, s := range []string{
		"2026-11-30 14:14:50.123456+00", "1970-01-01 00:00:00-00:30", "0044-03-15 12:00:00+05:53:28 BC", "294276-12-31 23:59:59.999999+00",
		"4714-11-24 00:00:00+00 BC", "2000-02-29 00:00:00", "1900-02-29 00:00:00+00", "infinity", "",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, _, ok := parseTimestamp([]byte(text))
		want, wantOK := referenceTimestamp(text)
		if ok != wantOK || got != want {
			t.Errorf("parseTimestamp(%q) = %v, %v, want %v, %v", text, got, ok, want, wantOK)
		}
	})
}
