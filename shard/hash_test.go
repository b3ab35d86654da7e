package shard

import (
	"encoding/csv"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

type vector struct {
	hash Hash
	key  string
	n    int32
	want int32
}

// vectors reads testdata/vectors.csv. Its values were computed by another program in
// another language; a change of one is a change of what has been released.
func vectors(t testing.TB) []vector {
	t.Helper()
	f, err := os.Open("testdata/vectors.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var vs []vector
	for _, r := range rows[1:] {
		h, err := ParseHash(r[0])
		if err != nil {
			t.Fatal(err)
		}
		n, errN := strconv.ParseInt(r[2], 10, 32)
		p, errP := strconv.ParseInt(r[3], 10, 32)
		if errN != nil || errP != nil {
			t.Fatalf("vector %q isn't numbers", r)
		}
		vs = append(vs, vector{h, r[1], int32(n), int32(p)})
	}
	return vs
}

func TestPartitionVectors(t *testing.T) {
	vs := vectors(t)
	if len(vs) != 63 {
		t.Errorf("testdata has %d vectors, want all 63", len(vs))
	}
	for _, v := range vs {
		if got := Partition(v.hash, []byte(v.key), v.n); got != v.want {
			t.Errorf("Partition(%s, %.20q, %d) = %d, want %d", v.hash, v.key, v.n, got, v.want)
		}
	}
}

// The documented vectors are spelt out here too, so that the file can't be regenerated
// along with a wrong function.
func TestPartitionDocumented(t *testing.T) {
	counts := []int32{1, 3, 12, 16, 24, 100}
	for key, want := range map[string][]int32{
		"order:A-1":              {0, 0, 0, 12, 12, 92},
		"order:A-2":              {0, 1, 10, 6, 22, 30},
		"customer:42":            {0, 0, 3, 11, 3, 15},
		"":                       {0, 1, 4, 4, 4, 52},
		"ключ":                   {0, 1, 4, 0, 16, 24},
		strings.Repeat("a", 300): {0, 0, 3, 11, 3, 67},
	} {
		for i, n := range counts {
			if got := Partition(SHA256, []byte(key), n); got != want[i] {
				t.Errorf("Partition(%.20q, %d) = %d, want %d", key, n, got, want[i])
			}
		}
	}
}

func TestPartitionNilIsEmpty(t *testing.T) {
	if a, b := Partition(SHA256, nil, 100), Partition(SHA256, []byte{}, 100); a != b {
		t.Errorf("nil key: %d, empty key: %d", a, b)
	}
}

func TestPartitionIsInRangeAndLeavesTheKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SliceOf(rapid.Byte()).Draw(t, "key")
		n := rapid.Int32Range(1, 1<<31-1).Draw(t, "n")
		before := string(key)
		p := Partition(SHA256, key, n)
		if p < 0 || p >= n {
			t.Fatalf("partition %d of %d", p, n)
		}
		if string(key) != before {
			t.Fatal("the key was changed")
		}
		if q := Partition(SHA256, []byte(before), n); q != p {
			t.Fatalf("the same key went to %d, then to %d", p, q)
		}
	})
}

func TestPartitionRefusesProgrammingErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		h Hash
		n int32
	}{
		"none":         {SHA256, 0},
		"negative":     {SHA256, -3},
		"no hash":      {"", 3},
		"unknown hash": {"murmur2", 3},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if r, ok := recover().(string); !ok || !strings.HasPrefix(r, "shard: ") {
					t.Errorf("recovered %v, want a panic that names the package", r)
				}
			}()
			Partition(tc.h, []byte("k"), tc.n)
		})
	}
}

func TestParseHash(t *testing.T) {
	if h, err := ParseHash("sha256"); h != SHA256 || err != nil {
		t.Errorf("ParseHash(sha256) = %q, %v", h, err)
	}
	for _, planned := range []string{"murmur2", "fnv1a"} {
		h, err := ParseHash(planned)
		if !errors.Is(err, ErrNotSupportedYet) || h != "" {
			t.Errorf("ParseHash(%s) = %q, %v, want ErrNotSupportedYet", planned, h, err)
		}
		if want := `partition hash "` + planned + `": not supported yet; use "sha256"`; err.Error() != want {
			t.Errorf("error %q, want %q", err, want)
		}
	}
	for _, unknown := range []string{"", "SHA256", "sha-256", "sha256 ", "murmur3"} {
		h, err := ParseHash(unknown)
		if err == nil || errors.Is(err, ErrNotSupportedYet) || h != "" {
			t.Errorf("ParseHash(%q) = %q, %v, want an error of its own", unknown, h, err)
		}
	}
}

func TestPartitionDoesNotAllocate(t *testing.T) {
	key := []byte("order:A-1")
	var sink int32
	if n := testing.AllocsPerRun(100, func() { sink += Partition(SHA256, key, 12) }); n != 0 {
		t.Errorf("%v allocations per call, want none", n)
	}
}

func BenchmarkPartition(b *testing.B) {
	for _, size := range []int{9, 36, 300} {
		b.Run(strconv.Itoa(size)+"B", func(b *testing.B) {
			key := []byte(strings.Repeat("k", size))
			b.ReportAllocs()
			for b.Loop() {
				Partition(SHA256, key, 12)
			}
		})
	}
}
