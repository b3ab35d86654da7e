package wal_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cdc-relay/cdc-relay/wal"
	"github.com/cdc-relay/cdc-relay/wal/waltest"
)

// answering opens a stream to a server of a version that answers one further query.
func answering(t *testing.T, version int, rows [][]string) (s *wal.Stream, asked chan string) {
	asked = make(chan string, 1)
	server := waltest.Serve(t, func(c *waltest.Conn) {
		src := source()
		src.System.Version = version
		opening := 2
		src.Answer = func(sql string) ([][]string, bool) {
			if opening--; opening >= 0 {
				return nil, false
			}
			asked <- sql
			return rows, true
		}
		c.Accept()
		c.AnswerAll(src)
	})
	return open(t, config(server)), asked
}

func TestSlot(t *testing.T) {
	row := []string{"it's", "pgoutput", "logical", "app", "t", "f", "t", "4711", "0/15963D0", "16/B374D848", "extended"}
	want := wal.SlotInfo{
		Name: "it's", Plugin: "pgoutput", Type: "logical", Database: "app", Temporary: true, Active: true, ActivePID: 4711,
		Restart: 0x15963D0, Confirmed: 0x16_B374D848, WALStatus: "extended",
	}
	synctest.Test(t, func(t *testing.T) {
		s, asked := answering(t, 140000, [][]string{row})
		got, err := s.Slot(t.Context(), "it's")
		if err != nil || *got != want {
			t.Errorf("slot %+v, %v; want %+v", got, err, want)
		}
		if sql := <-asked; !strings.HasSuffix(sql, "slot_name = 'it''s'") || strings.Contains(sql, "failover") {
			t.Errorf("asked %q", sql)
		}
		if s.Received() != want.Confirmed {
			t.Errorf("received %v", s.Received())
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s, asked := answering(t, 170004, [][]string{append(slices.Clone(row), "wal_removed", "t", "t")})
		want := want
		want.Invalidation, want.Failover, want.Synced = "wal_removed", true, true
		got, err := s.Slot(t.Context(), "it's")
		if err != nil || *got != want || !got.Lost() {
			t.Errorf("slot %+v, %v; want %+v", got, err, want)
		}
		<-asked
	})
	synctest.Test(t, func(t *testing.T) {
		s, asked := answering(t, 150000, nil)
		if got, err := s.Slot(t.Context(), "slot"); err != nil || got != nil {
			t.Errorf("slot %+v, %v; want none", got, err)
		}
		<-asked
	})
	for name, row := range map[string][]string{
		"short": row[:5], "odd LSN": {"", "", "", "", "", "", "", "", "x", "", ""}, "odd pid": {"", "", "", "", "", "", "", "x", "", "", ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, asked := answering(t, 150000, [][]string{row})
			if got, err := s.Slot(t.Context(), "slot"); err == nil {
				t.Errorf("%s: slot %+v", name, got)
			}
			<-asked
		})
	}
}

func TestSlotLost(t *testing.T) {
	for _, c := range []struct {
		info wal.SlotInfo
		want bool
	}{
		{wal.SlotInfo{WALStatus: "reserved"}, false},
		{wal.SlotInfo{WALStatus: "unreserved"}, false},
		{wal.SlotInfo{WALStatus: "lost"}, true},
		{wal.SlotInfo{WALStatus: "reserved", Invalidation: "idle_timeout"}, true},
	} {
		if got := c.info.Lost(); got != c.want {
			t.Errorf("%+v is lost: %v", c.info, got)
		}
	}
}

func TestCreateSlotCommand(t *testing.T) {
	for _, c := range []struct {
		version int
		opt     wal.SlotOptions
		want    string
	}{
		{140000, wal.SlotOptions{}, `CREATE_REPLICATION_SLOT "s" LOGICAL pgoutput EXPORT_SNAPSHOT`},
		{150018, wal.SlotOptions{}, `CREATE_REPLICATION_SLOT "s" LOGICAL pgoutput (SNAPSHOT 'export')`},
		{170000, wal.SlotOptions{}, `CREATE_REPLICATION_SLOT "s" LOGICAL pgoutput (SNAPSHOT 'export')`},
		{170000, wal.SlotOptions{Failover: true}, `CREATE_REPLICATION_SLOT "s" LOGICAL pgoutput (SNAPSHOT 'export', FAILOVER true)`},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, asked := answering(t, c.version, [][]string{{"s", "1/5", "00000003-00000002-1", "pgoutput"}})
			got, err := s.CreateSlot(t.Context(), "s", c.opt)
			if err != nil || got != (wal.SlotCreated{Consistent: 0x1_00000005, Snapshot: "00000003-00000002-1"}) {
				t.Errorf("%d: %+v, %v", c.version, got, err)
			}
			if sql := <-asked; sql != c.want {
				t.Errorf("%d: command %s, want %s", c.version, sql, c.want)
			}
			if s.Received() != got.Consistent {
				t.Errorf("received %v", s.Received())
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s, _ := answering(t, 160000, nil)
		if _, err := s.CreateSlot(t.Context(), "s", wal.SlotOptions{Failover: true}); err == nil || !strings.Contains(err.Error(), "17") {
			t.Errorf("failover on 16: %v", err)
		}
	})
}

func TestTimelineHistory(t *testing.T) {
	for name, c := range map[string]struct {
		content string
		want    []wal.TimelineSwitch
		fails   bool
	}{
		"two": {
			content: "1\t0/3000148\tno recovery target specified\n\n2\t16/B374D848\tat restore point \"x\"\n",
			want:    []wal.TimelineSwitch{{Timeline: 1, Switch: 0x3000148}, {Timeline: 2, Switch: 0x16_B374D848}},
		},
		"comments": {content: "# by hand\n  \n1 0/1\n", want: []wal.TimelineSwitch{{Timeline: 1, Switch: 1}}},
		"empty":    {},
		"no LSN":   {content: "1\n", fails: true},
		"odd LSN":  {content: "1\t0/0x1\n", fails: true},
		"odd line": {content: "one\t0/1\n", fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, asked := answering(t, 150000, [][]string{{"00000003.history", c.content}})
				got, err := s.TimelineHistory(t.Context(), 3)
				if (err != nil) != c.fails || !slices.Equal(got, c.want) {
					t.Errorf("%v, %v; want %v", got, err, c.want)
				}
				if sql := <-asked; sql != "TIMELINE_HISTORY 3" {
					t.Errorf("asked %q", sql)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s, _ := answering(t, 150000, nil)
		if got, err := s.TimelineHistory(t.Context(), 1); err != nil || len(got) != 0 {
			t.Errorf("history of timeline 1: %v, %v", got, err)
		}
	})
}
