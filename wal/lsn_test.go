package wal

import (
	"database/sql"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func TestLSNString(t *testing.T) {
	for lsn, want := range map[LSN]string{
		0:                   "0/0",
		1:                   "0/1",
		0x10:                "0/10",
		0x16_B374D848:       "16/B374D848",
		0x1_00000000:        "1/0",
		0xFFFFFFFF_FFFFFFFF: "FFFFFFFF/FFFFFFFF",
		0x0ABCDEF0_00000001: "ABCDEF0/1",
		0x00000000_80000000: "0/80000000",
		0x80000000_0000000F: "80000000/F",
		0x00000001_0000000A: "1/A",
	} {
		if got := lsn.String(); got != want {
			t.Errorf("LSN %d prints %q, want %q", uint64(lsn), got, want)
		}
	}
}

func TestParseLSN(t *testing.T) {
	for s, want := range map[string]LSN{
		"0/0": 0, "16/B374D848": 0x16_B374D848, "16/b374d848": 0x16_B374D848, "00000016/0B374D84": 0x16_0B374D84,
		"FFFFFFFF/FFFFFFFF": 1<<64 - 1, "a/B": 0xA_0000000B,
	} {
		if got, err := ParseLSN(s); err != nil || got != want {
			t.Errorf("ParseLSN(%q) = %v, %v; want %v", s, got, err, want)
		}
	}
}

func TestParseLSNRefuses(t *testing.T) {
	for _, s := range []string{
		"", "/", "0", "0/", "/0", "0/0/0", "0/0 ", " 0/0", "0 /0", "0/ 0", "0/0\n", "0/0\x00", "-1/0", "+1/0", "0/-1",
		"0x1/0", "0/0x1", "000000001/0", "0/000000001", "123456789/0", "G/0", "0/G", "16-B374D848", "16\\0", "1_0/0", "0/ZZ",
		"24/", "372950000", "0/é", "０/０",
	} {
		if got, err := ParseLSN(s); err == nil {
			t.Errorf("ParseLSN(%q) = %v, want an error", s, got)
		} else if !strings.Contains(err.Error(), strconv.Quote(s)) {
			t.Errorf("ParseLSN(%q): error %q doesn't name the input", s, err)
		}
	}
}

func TestLSNTextAndSQL(t *testing.T) {
	const lsn LSN = 0x16_B374D848
	js, err := json.Marshal(map[string]LSN{"lsn": lsn})
	if err != nil || string(js) != `{"lsn":"16/B374D848"}` {
		t.Errorf("as JSON: %s, %v", js, err)
	}
	var back map[string]LSN
	if err := json.Unmarshal(js, &back); err != nil || back["lsn"] != lsn {
		t.Errorf("from JSON: %v, %v", back, err)
	}
	if v, err := lsn.Value(); err != nil || v != "16/B374D848" {
		t.Errorf("Value: %v, %v", v, err)
	}
	for _, src := range []any{"16/B374D848", []byte("16/b374d848")} {
		var got LSN
		if err := got.Scan(src); err != nil || got != lsn {
			t.Errorf("Scan(%v) = %v, %v", src, got, err)
		}
	}
	for _, src := range []any{nil, int64(5), "0/", []byte("x"), uint64(7)} {
		got := LSN(77)
		if err := got.Scan(src); err == nil || got != 77 {
			t.Errorf("Scan(%v) = %v, %v; want an error and no change", src, got, err)
		}
	}
	var _ sql.Scanner = new(LSN)
	var null sql.Null[LSN]
	if err := null.Scan(nil); err != nil || null.Valid {
		t.Errorf("Null scan: %v, %v", null, err)
	}
}

var lsnSyntax = regexp.MustCompile(`\A([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})\z`)

// referenceLSN is a second reading of the syntax, sharing nothing with the first.
func referenceLSN(s string) (LSN, bool) {
	m := lsnSyntax.FindStringSubmatch(s)
	if m == nil {
		return 0, false
	}
	hi, err1 := strconv.ParseUint(m[1], 16, 32)
	lo, err2 := strconv.ParseUint(m[2], 16, 32)
	return LSN(hi<<32 + lo), err1 == nil && err2 == nil
}

func FuzzParseLSN(f *testing.F) {
	for _, s := range []string{"0/0", "16/B374D848", "16/b374d848", "FFFFFFFF/FFFFFFFF", "123456789/0", "0/123456789", "/", "", "0/0 ", "g/0", "1//2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ParseLSN(s)
		want, ok := referenceLSN(s)
		if (err == nil) != ok || got != want {
			t.Fatalf("ParseLSN(%q) = %v, %v; the reference says %v, %v", s, got, err, want, ok)
		}
		if !ok {
			return
		}
		again, err := ParseLSN(got.String())
		if err != nil || again != got {
			t.Fatalf("%v printed and parsed is %v, %v", got, again, err)
		}
		if ref, ok := referenceLSN(got.String()); !ok || ref != got {
			t.Fatalf("%v prints as %q", uint64(got), got.String())
		}
	})
}
