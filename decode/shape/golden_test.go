package shape

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/wal"
)

// A change in a .want file is a change of the wire format. What has been released never
// changes: events would come out otherwise in a replay than they first did.
var rewrite = flag.Bool("rewrite", false, "write testdata/records/*.want anew; understand each difference first")

func printBytes(b []byte) string {
	switch s := string(b); {
	case b == nil:
		return "null"
	case strconv.CanBackquote(s):
		return "`" + s + "`"
	default:
		return strconv.Quote(s)
	}
}

// printEvent prints the record that an event becomes, and what else goes with it.
func printEvent(e Event) string {
	var b strings.Builder
	fmt.Fprintf(&b, "topic     %s\nkey       %s\nshard by  %s\ntimestamp %d\n", e.Topic, printBytes(e.Key), printBytes(e.ShardKey), e.TimestampMs)
	for _, h := range e.Headers {
		fmt.Fprintf(&b, "header    %s = %s\n", printBytes([]byte(h.Key)), printBytes(h.Value))
	}
	fmt.Fprintf(&b, "value     %s\n", printBytes(e.Value))
	return b.String()
}

// script is a case of testdata/records: settings, and the columns of one row.
type script struct {
	cfg     Config
	pos     wal.Position
	commit  time.Time
	columns []any
}

var oids = map[string]int{
	"bigint": oidInt8, "integer": oidInt4, "text": 25, "uuid": 2950, "bytea": oidBytea, "json": oidJSON, "jsonb": oidJSONB,
	"timestamp": oidTimestamp, "timestamptz": oidTimestamptz, "domain": firstOwnOID,
}

// readScript reads lines of "set NAME VALUE", "COLUMN TYPE = TEXT", "COLUMN TYPE = NULL" and
// "COLUMN TYPE := GOSTRING".
func readScript(t *testing.T, path string) script {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := script{
		cfg: Config{Table: "public.outbox_events", Topic: "orders"}, pos: wal.Position{Lineage: 1, Commit: 0x16B374D848, Seq: 7},
		commit: time.Date(2026, 11, 30, 14, 14, 51, 0, time.UTC),
	}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := s.line(line); err != nil {
			t.Fatalf("%s: line %q: %v", path, line, err)
		}
	}
	return s
}

func (s *script) line(line string) (err error) {
	if set, ok := strings.CutPrefix(line, "set "); ok {
		name, value, _ := strings.Cut(set, " ")
		switch name {
		case "keys":
			s.cfg.Keys = KeysMode(value)
		case "ordering_key":
			s.cfg.Ordering = OrderingMode(value)
		case "tombstones":
			s.cfg.Tombstones = value == "true"
		case "commit":
			s.commit, err = time.Parse(time.RFC3339Nano, value)
		case "position":
			var high, low uint32
			_, err = fmt.Sscanf(value, "%d %X/%X %d", &s.pos.Lineage, &high, &low, &s.pos.Seq)
			s.pos.Commit = wal.LSN(high)<<32 | wal.LSN(low)
		default:
			return errors.New("no such setting")
		}
		return err
	}
	left, right, ok := strings.Cut(line, " = ")
	var value any = right
	if right == "NULL" {
		value = nil
	}
	if l, r, quoted := strings.Cut(line, " := "); quoted && (!ok || len(l) < len(left)) {
		left, ok = l, true
		if value, err = strconv.Unquote(r); err != nil {
			return err
		}
	}
	column, typ, ok2 := strings.Cut(left, " ")
	oid, ok3 := oids[typ]
	if !ok || !ok2 || !ok3 {
		return errors.New("neither a setting nor a column")
	}
	s.columns = append(s.columns, column, oid, value)
	return nil
}

func TestGoldenRecords(t *testing.T) {
	paths, err := filepath.Glob("testdata/records/*.row")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d cases, %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".row"), func(t *testing.T) {
			s := readScript(t, path)
			e, err := mustNew(t, s.cfg).Event(tuple(s.columns...), s.pos, s.commit)
			got := printEvent(e)
			if err != nil {
				got = fmt.Sprintf("%T\n%v\n", err, err)
			}
			wantPath := strings.TrimSuffix(path, ".row") + ".want"
			if *rewrite {
				if err := os.WriteFile(wantPath, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(wantPath)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}
