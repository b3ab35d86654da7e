package wal

import (
	"math"
	"strings"
	"testing"
)

func TestPositionString(t *testing.T) {
	for _, c := range []struct {
		p    Position
		want string
	}{
		{Position{}, "0000:0000000000000000:0000000000"},
		{Position{1, 0x16_B374D848, 3}, "0001:00000016B374D848:0000000003"},
		{Position{math.MaxUint16, math.MaxUint64, math.MaxUint32}, "65535:FFFFFFFFFFFFFFFF:4294967295"},
	} {
		if got := c.p.String(); got != c.want {
			t.Errorf("%#v prints %q, want %q", c.p, got, c.want)
		}
		if got, err := ParsePosition(c.want); err != nil || got != c.p {
			t.Errorf("ParsePosition(%q) = %#v, %v; want %#v", c.want, got, err, c.p)
		}
	}
}

func TestParsePositionRefuses(t *testing.T) {
	for _, s := range []string{
		"", ":", "::", "1:16:3", "0001:00000016B374D848", "0001:00000016B374D848:", "0001:00000016b374d848:0000000003",
		"001:00000016B374D848:0000000003", "00001:00000016B374D848:0000000003", "0001:0000016B374D848:0000000003",
		"0001:00000016B374D848:000000003", "0001:00000016B374D848:00000000003", "0001:00000016B374D848:4294967296",
		"65536:00000016B374D848:0000000003", "+001:00000016B374D848:0000000003", "0001:00000016B374D848:+000000003",
		"0001:0x000016B374D848:0000000003", "0001:00000016B374D84_:0000000003", "0001;00000016B374D848:0000000003",
		" 0001:00000016B374D848:0000000003", "0001:00000016B374D848:0000000003\n", ":00000016B374D848:0000000003",
	} {
		if got, err := ParsePosition(s); err == nil {
			t.Errorf("ParsePosition(%q) = %v, want an error", s, got)
		}
	}
}

func TestPositionCompare(t *testing.T) {
	// In order, so each pair's comparison is that of the indices.
	ps := []Position{
		{},
		{0, 0, 1},
		{0, 1, 0},
		{1, 0, 0},
		{1, 5, 0},
		{1, 5, 1},
		{1, 5, 2},
		{1, 5, 10}, // as text behind 2 only with zeros before it
		{1, 5, math.MaxUint32},
		{1, 6, 0},
		{1, 9, 0},
		{1, 10, 0}, // A: the digits come before the letters
		{1, 0x10, 0},
		{1, math.MaxUint64, 0},
		{2, 0, 0},
		{2, 1 << 63, 0},
		{10, 0, 0},
		{9999, 0, 0},
	}
	for i, p := range ps {
		for j, q := range ps {
			want := min(1, max(-1, i-j))
			if got := p.Compare(q); got != want {
				t.Errorf("%v compared to %v is %d, want %d", p, q, got, want)
			}
			if got := strings.Compare(p.String(), q.String()); got != want {
				t.Errorf("text of %v compared to %v is %d, want %d", p, q, got, want)
			}
		}
	}
}

func FuzzParsePosition(f *testing.F) {
	f.Add("0001:00000016B374D848:0000000003", uint16(1), uint64(0x16B374D848), uint32(3))
	f.Add("65535:FFFFFFFFFFFFFFFF:4294967295", uint16(0), uint64(0), uint32(0))
	f.Add("-001:00000016B374D848:0000000003", uint16(9999), uint64(1), uint32(math.MaxUint32))
	f.Fuzz(func(t *testing.T, s string, lineage uint16, commit uint64, seq uint32) {
		if p, err := ParsePosition(s); err == nil && p.String() != s {
			t.Fatalf("%q parses as %#v, which prints %q", s, p, p.String())
		}
		p := Position{lineage, LSN(commit), seq}
		if got, err := ParsePosition(p.String()); err != nil || got != p {
			t.Fatalf("%#v prints %q, which parses as %#v, %v", p, p.String(), got, err)
		}
	})
}

func TestLineagesAt(t *testing.T) {
	ls := Lineages{{3, 500}, {1, 0}, {2, 100}}
	for commit, want := range map[LSN]uint16{0: 1, 99: 1, 100: 2, 101: 2, 499: 2, 500: 3, math.MaxUint64: 3} {
		if got := ls.At(commit); got != want {
			t.Errorf("lineage at %d is %d, want %d", commit, got, want)
		}
	}
	for _, c := range []struct {
		name   string
		ls     Lineages
		commit LSN
		want   uint16
	}{
		{"none", nil, 5, 0},
		{"before the first", Lineages{{2, 100}}, 99, 0},
		{"at the first", Lineages{{2, 100}}, 100, 2},
		{"same from, ascending", Lineages{{1, 100}, {2, 100}}, 100, 2},
		{"same from, descending", Lineages{{2, 100}, {1, 100}}, 100, 2},
		{"later number, earlier from", Lineages{{5, 10}, {4, 20}}, 30, 4},
		{"no lineage has number 0", Lineages{{1, 0}, {0, 50}}, 60, 1},
	} {
		if got := c.ls.At(c.commit); got != c.want {
			t.Errorf("%s: lineage at %d is %d, want %d", c.name, c.commit, got, c.want)
		}
	}
}
