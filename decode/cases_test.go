package decode_test

import (
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/decode"
)

// recording is a session with a real server, kept in testdata/pg<version>/<name>.frames, and
// what the decoder makes of it in <name>.want. The steps are run by TestRecord only.
type recording struct {
	name  string
	about string // heads the trace
	setup string // before the slot is made; defaults to the table notes, published for inserts
	steps []step
	since int // the first major version that can run it; 0 is any
	// overdue records with so short a wal_sender_timeout that the server asks for a reply in
	// the middle of a transaction.
	overdue bool
	// shows fails if the recording lacks what it was made for. The golden file can't say
	// that: -rewrite takes any trace.
	shows func(t *testing.T, got []decode.Change)
}

// step is one statement of one session, or rows to copy into the statement's table.
type step struct{ session, sql, rows string }

// byA and byB are statements of two sessions.
func byA(sql ...string) []step { return session("a", sql) }
func byB(sql ...string) []step { return session("b", sql) }

func session(name string, sql []string) []step {
	var out []step
	for _, s := range sql {
		out = append(out, step{session: name, sql: s})
	}
	return out
}

func steps(parts ...[]step) []step {
	var out []step
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

const notes = `create table notes (id bigint primary key, note text);`

const notesInserts = notes + `create publication pub for table notes with (publish = 'insert');`

const notesAll = notes + `create publication pub for table notes;`

var recordings = append(transactions, others...)

// transactions are about what a transaction may hold, and in which order.
var transactions = []recording{
	{
		name: "inserts", about: "three transactions of one insert each",
		steps: byA(`insert into notes values (1, 'one')`, `insert into notes values (2, 'two')`, `insert into notes values (3, 'three')`),
		shows: letters("BRIC BIC BIC"),
	},
	{
		name: "rows", about: "one transaction of several rows: the sequence counts them, also those of one statement",
		steps: byA(`begin`, `insert into notes values (1, 'one')`, `insert into notes select i, 'many' from generate_series(2, 5) i`, `insert into notes values (6, 'last')`, `commit`),
		shows: letters("BRIIIIIIC"),
	},
	{
		name: "overlapping", about: "B1 is inserted and committed between A1 and A2: commit order is not id order, and A1 lies before B1 in the log",
		steps: steps(byA(`begin`, `insert into notes values (1, 'A1')`), byB(`insert into notes values (2, 'B1')`), byA(`insert into notes values (3, 'A2')`, `commit`)),
		shows: letters("BRIC BIIC"),
	},
	{
		name: "adjacent-commits", about: "two overlapping transactions commit back to back: the second's commit LSN is the first's end",
		steps: steps(byA(`begin`, `insert into notes values (1, 'A')`), byB(`begin`, `insert into notes values (2, 'B')`), byA(`commit`), byB(`commit`)),
		shows: func(t *testing.T, got []decode.Change) {
			letters("BRIC BIC")(t, got)
			if ends, commits := of(got, decode.Commit), of(got, decode.Begin); ends[0].End != commits[1].Commit {
				t.Errorf("the first ends at %s, the second commits at %s", ends[0].End, commits[1].Commit)
			}
		},
	},
	{
		name: "savepoints", about: "rows 2 and 4 were rolled back to a savepoint, row 3's was released: 1, 3 and 5 are left and have no gap",
		steps: byA(`begin`, `insert into notes values (1, 'kept')`, `savepoint s`, `insert into notes values (2, 'rolled back')`, `rollback to s`,
			`savepoint r`, `insert into notes values (3, 'released')`, `release r`, `savepoint q`, `insert into notes values (4, 'rolled back')`, `rollback to q`,
			`insert into notes values (5, 'kept')`, `commit`, `begin`, `insert into notes values (6, 'aborted')`, `rollback`),
		shows: letters("BRIIIC"),
	},
	{
		name: "insert-delete", about: "rows that were deleted in the transaction that inserted them are inserts all the same, with their first image",
		steps: byA(`begin`, `insert into notes values (1, 'deleted')`, `delete from notes`, `commit`,
			`begin`, `insert into notes values (2, 'first image')`, `update notes set note = 'second image'`, `delete from notes`, `commit`,
			`begin`, `insert into notes values (3, 'truncated')`, `truncate notes`, `commit`,
			`with n as (insert into notes values (4, 'by a CTE') returning id) select * from n`),
		shows: letters("BRIC BIC BIC BRIC"),
	},
	{
		name: "upsert", about: "the first upsert is an insert, the second an update; where nothing is done nothing is sent", setup: notesAll,
		steps: byA(`insert into notes values (1, 'one') on conflict (id) do update set note = 'again'`,
			`insert into notes values (1, 'one') on conflict (id) do update set note = 'again'`,
			`insert into notes values (1, 'one') on conflict do nothing`, `insert into notes values (2, 'two') on conflict do nothing`),
		shows: letters("BRIC BUC BIC"),
	},
	{
		name: "all-operations", about: "a publication of everything: updates by key, with a changed key, of a whole row and with a value that wasn't sent, deletes, truncates",
		setup: notesAll + `create table whole (id bigint, note text); alter table whole replica identity full; alter publication pub add table whole;
			alter table notes alter note set storage external;`,
		steps: byA(`begin`, `insert into notes values (1, repeat('long ', 1000)), (2, 'two')`, `insert into whole values (1, null), (2, '')`, `commit`,
			`update notes set id = 10 where id = 1`, `update notes set note = 'changed' where id = 2`, `update whole set note = 'x' where id = 1`,
			`delete from notes where id = 2`, `delete from whole where id = 2`, `insert into notes values (3, 'three')`, `truncate notes, whole restart identity`, `truncate notes cascade`),
		shows: letters("BRIIRIIC BUC BUC BUC BDC BDC BIC BRRTC BRTC"),
	},
	{
		name: "copy", about: "COPY: all rows of a batch share one position in the log, so nothing may be told apart by it",
		steps: []step{{"a", `copy notes from stdin`, "1\tone\n2\t\\N\n3\t\n4\ttab\\there\n"}},
		shows: letters("BRIIIIC"),
	},
}

// letters checks the letters of the messages. Left out are spaces, keepalives, and transactions
// without content, which servers before 15 send.
func letters(want string) func(*testing.T, []decode.Change) {
	return func(t *testing.T, got []decode.Change) {
		t.Helper()
		var ops []byte
		for _, c := range got {
			if c.Op != 0 {
				ops = append(ops, c.Op)
			}
		}
		if g, w := strings.ReplaceAll(string(ops), "BC", ""), strings.ReplaceAll(want, " ", ""); g != w {
			t.Errorf("messages are %s, want %s", g, w)
		}
	}
}

// of keeps the changes of one kind.
func of(got []decode.Change, k decode.Kind) []decode.Change {
	var out []decode.Change
	for _, c := range got {
		if c.Kind == k {
			out = append(out, c)
		}
	}
	return out
}
