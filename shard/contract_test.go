package shard

import (
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/cdc-relay/cdc-relay/wal"
)

func contract(topic string, no int, lineage uint16, from wal.LSN) Contract {
	return Contract{
		Topic: topic, No: no, Lineage: lineage, From: from,
		PartitionCount: int32(no), Hash: SHA256, Keys: "derived", OrderingKey: "row", ValueFormat: "raw",
	}
}

func TestContractsAt(t *testing.T) {
	pending := contract("orders", 6, 0, 0)
	pending.Pending = true
	cs := Contracts{
		contract("orders", 4, 2, 0x50), // LSNs went back with lineage 2
		contract("orders", 1, 1, 0),
		contract("payments", 1, 1, 0x80),
		contract("orders", 3, 1, 0x200),
		pending,
		contract("orders", 2, 1, 0x100),
		contract("orders", 5, 2, 0x50), // at the same position: the later one
	}
	for _, tc := range []struct {
		topic   string
		lineage uint16
		at      wal.LSN
		want    int // 0: none
	}{
		{"orders", 1, 0, 1},
		{"orders", 1, 0xff, 1},
		{"orders", 1, 0x100, 2}, // in force from its own position on
		{"orders", 1, 0x101, 2},
		{"orders", 1, 0x200, 3},
		{"orders", 1, 1<<64 - 1, 3}, // the next lineage is no matter of LSN
		{"orders", 2, 0, 3},         // nothing new yet in lineage 2: the last of lineage 1
		{"orders", 2, 0x4f, 3},
		{"orders", 2, 0x50, 5},
		{"orders", 3, 0, 5},
		{"orders", 0, 1 << 40, 0}, // no position
		{"payments", 1, 0x7f, 0},
		{"payments", 1, 0x80, 1},
		{"payments", 2, 0, 1},
		{"refunds", 9, 9, 0},
		{"", 9, 9, 0},
	} {
		c, ok := cs.At(tc.topic, tc.lineage, tc.at)
		if c.No != tc.want || ok != (tc.want != 0) {
			t.Errorf("At(%q, %d, %v) = contract %d, %v, want %d", tc.topic, tc.lineage, tc.at, c.No, ok, tc.want)
		}
		if ok && c.Topic != tc.topic {
			t.Errorf("At(%q, ..) returned a contract of %q", tc.topic, c.Topic)
		}
	}
	if c, ok := Contracts(nil).At("orders", 1, 1); ok || c.No != 0 {
		t.Errorf("without contracts: %+v, %v", c, ok)
	}
}

func drawContracts(t *rapid.T) Contracts {
	n := rapid.IntRange(0, 8).Draw(t, "contracts")
	cs := make(Contracts, n)
	for i := range cs {
		cs[i] = contract(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "topic"), i+1,
			rapid.Uint16Range(1, 3).Draw(t, "lineage"), wal.LSN(rapid.Uint64Range(0, 20).Draw(t, "from")))
		cs[i].Pending = rapid.Bool().Draw(t, "pending")
	}
	return cs
}

func TestLaterContractChangesNothingBefore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cs := drawContracts(t)
		lineage := rapid.Uint16Range(0, 4).Draw(t, "lineage")
		at := wal.LSN(rapid.Uint64Range(0, 21).Draw(t, "at"))
		before, okBefore := cs.At("a", lineage, at)

		l := contract(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "topic"), 100,
			rapid.Uint16Range(lineage, 5).Draw(t, "later lineage"), 0)
		switch {
		case rapid.Bool().Draw(t, "pending"):
			l.Pending = true
			l.Lineage, l.From = 0, 0
		case l.Lineage == lineage:
			l.From = at + 1 + wal.LSN(rapid.Uint64Range(0, 5).Draw(t, "distance"))
		default:
			l.From = wal.LSN(rapid.Uint64Range(0, 21).Draw(t, "from"))
		}
		i := rapid.IntRange(0, len(cs)).Draw(t, "place")
		after, okAfter := slices.Insert(slices.Clone(cs), i, l).At("a", lineage, at)
		if okBefore != okAfter || before.No != after.No {
			t.Fatalf("at %d %v: contract %d before %+v was added, %d after", lineage, at, before.No, l, after.No)
		}
	})
}

func TestContractsAtIgnoresTheirOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cs := drawContracts(t)
		lineage := rapid.Uint16Range(0, 4).Draw(t, "lineage")
		at := wal.LSN(rapid.Uint64Range(0, 21).Draw(t, "at"))
		want, ok := cs.At("a", lineage, at)
		got, ok2 := Contracts(rapid.Permutation(cs).Draw(t, "order")).At("a", lineage, at)
		if ok != ok2 || want.No != got.No {
			t.Fatalf("contract %d in one order, %d in another", want.No, got.No)
		}
	})
}

func TestDiff(t *testing.T) {
	base := contract("orders", 12, 1, 0)
	base.Mapping = []byte(`{"id": "event_id", "n": 12345678901234567890}`)
	for name, tc := range map[string]struct {
		change func(*Contract)
		want   []string
	}{
		"nothing": {func(*Contract) {}, nil},
		"what decides no identity": {func(c *Contract) {
			c.Topic, c.No, c.Lineage, c.From, c.Pending = "x", 9, 9, 9, true
		}, nil},
		"partitions": {func(c *Contract) { c.PartitionCount = 16 }, []string{"partition count is 12 in force, 16 in the configuration"}},
		"hash":       {func(c *Contract) { c.Hash = "murmur2" }, []string{"hash is sha256 in force, murmur2 in the configuration"}},
		"keys":       {func(c *Contract) { c.Keys = "stored" }, []string{"keys is derived in force, stored in the configuration"}},
		"ordering":   {func(c *Contract) { c.OrderingKey = "commit" }, []string{"ordering_key is row in force, commit in the configuration"}},
		"format":     {func(c *Contract) { c.ValueFormat = "envelope" }, []string{"value format is raw in force, envelope in the configuration"}},
		"mapping printed otherwise": {func(c *Contract) {
			c.Mapping = []byte(`{"n":12345678901234567890,"id":"event_id"}`)
		}, nil},
		"mapping": {
			func(c *Contract) { c.Mapping = []byte(`{"id": "uuid"}`) },
			[]string{`mapping is {"id":"event_id","n":12345678901234567890} in force, {"id":"uuid"} in the configuration`},
		},
		"mapping in a last digit": {func(c *Contract) {
			c.Mapping = []byte(`{"id": "event_id", "n": 12345678901234567891}`)
		}, []string{`mapping is {"id":"event_id","n":12345678901234567890} in force, {"id":"event_id","n":12345678901234567891} in the configuration`}},
		"mapping gone": {
			func(c *Contract) { c.Mapping = nil },
			[]string{`mapping is {"id":"event_id","n":12345678901234567890} in force, none in the configuration`},
		},
		"mapping that isn't JSON": {
			func(c *Contract) { c.Mapping = []byte(`{} {}`) },
			[]string{`mapping is {"id":"event_id","n":12345678901234567890} in force, {} {} in the configuration`},
		},
		"two": {
			func(c *Contract) { c.PartitionCount, c.Keys = 3, "stored" },
			[]string{"partition count is 12 in force, 3 in the configuration", "keys is derived in force, stored in the configuration"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			wanted := base
			tc.change(&wanted)
			if got := Diff(base, wanted); !slices.Equal(got, tc.want) {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

func TestDiffTakesEveryFormOfNoMappingForOne(t *testing.T) {
	forms := [][]byte{nil, {}, []byte("null"), []byte("{}"), []byte(" { } ")}
	for _, a := range forms {
		for _, b := range forms {
			if ds := Diff(Contract{Mapping: a}, Contract{Mapping: b}); len(ds) != 0 {
				t.Errorf("mapping %q against %q: %q", a, b, ds)
			}
		}
	}
}

// Each field of a contract decides identity or is known not to; a new one must be sorted
// into one of the two here.
func TestDiffKnowsEveryField(t *testing.T) {
	compared := map[string]bool{
		"Topic": false, "No": false, "Lineage": false, "From": false, "Pending": false,
		"PartitionCount": true, "Hash": true, "Keys": true, "OrderingKey": true, "Mapping": true, "ValueFormat": true,
	}
	for i := range reflect.TypeFor[Contract]().NumField() {
		f := reflect.TypeFor[Contract]().Field(i)
		want, ok := compared[f.Name]
		if !ok {
			t.Errorf("field %s: does it decide identity?", f.Name)
			continue
		}
		var c Contract
		switch v := reflect.ValueOf(&c).Elem().Field(i); v.Kind() {
		case reflect.String:
			v.SetString("x")
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Slice:
			v.SetBytes([]byte(`{"x": "y"}`))
		case reflect.Int, reflect.Int32:
			v.SetInt(1)
		default:
			v.SetUint(1)
		}
		if got := len(Diff(Contract{}, c)) == 1; got != want {
			t.Errorf("field %s: compared %v, want %v", f.Name, got, want)
		}
	}
}

func BenchmarkContractsAt(b *testing.B) {
	cs := Contracts{contract("orders", 1, 1, 0), contract("payments", 1, 1, 0), contract("orders", 2, 1, 0x100)}
	b.ReportAllocs()
	for b.Loop() {
		if c, ok := cs.At("orders", 1, 0x200); !ok || c.No != 2 {
			b.Fatal("wrong contract")
		}
	}
}
