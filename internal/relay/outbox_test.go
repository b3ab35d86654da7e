package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"

	"github.com/cdc-relay/cdc-relay/decode"
	"github.com/cdc-relay/cdc-relay/decode/shape"
	"github.com/cdc-relay/cdc-relay/internal/catalog"
	"github.com/cdc-relay/cdc-relay/internal/devenv/envtest"
)

// lender lends one connection.
type lender struct{ *pgx.Conn }

func (l lender) Do(ctx context.Context, fn func(context.Context, *pgx.Conn) error) error {
	return fn(ctx, l.Conn)
}

// TestOutboxIsFound: the outbox is the one published table that has the columns. Where that isn't certain,
// or a column that an event is made of isn't in the stream, nothing is guessed.
func TestOutboxIsFound(t *testing.T) {
	conn, err := pgx.Connect(t.Context(), envtest.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background()) // the test is over
	const columns = "(id bigserial primary key, entity_id text, event_type text, payload jsonb, created_at timestamptz)"
	if _, err := conn.Exec(t.Context(), `
		create table events `+columns+`; create table more `+columns+`; create table other (a int);
		create publication one for table events, other;
		create publication two for table events, more;
		create publication none for table other;
		create publication empty`); err != nil {
		t.Fatal(err)
	}
	var version int
	if err := conn.QueryRow(t.Context(), "select current_setting('server_version_num')::int / 10000").Scan(&version); err != nil {
		t.Fatal(err)
	}
	if version >= 15 { // publications know columns and filters
		if _, err := conn.Exec(t.Context(), `
			create publication narrow for table events (id, entity_id, event_type, created_at);
			create publication part for table events where (id > 5) with (publish = 'insert')`); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		publication, table string
		since              int    // the server's version
		refused            string // in the error; empty: found
		warns              string
	}{
		{publication: "one"},
		{publication: "two", table: "more"},
		{publication: "two", refused: "several tables have the columns of an outbox: public.events, public.more"},
		{publication: "none", refused: "no table has the columns"},
		{publication: "empty", refused: "it holds no table"},
		{publication: "one", table: "more", refused: "doesn't hold the table public.more"},
		{publication: "one", table: "other", refused: "public.other"},
		{publication: "narrow", since: 15, refused: "payload"},
		{publication: "narrow", table: "events", since: 15, refused: "payload"},
		{publication: "part", since: 15, warns: "the publication filters the outbox"},
	} {
		if version < c.since {
			continue
		}
		var log bytes.Buffer
		o := &Outbox{Catalog: catalog.New(lender{conn}, "cdc_relay"), Publication: c.publication, Log: zerolog.New(&log), Shape: shape.Config{Topic: "t"}}
		if c.table != "" {
			o.Tables = []catalog.Name{{Schema: "public", Table: c.table}}
		}
		_, err := o.Check(t.Context())
		var coded interface {
			ExitCode() int
			Hint() string
		}
		switch {
		case c.refused == "" && err != nil:
			t.Errorf("publication %s, table %q: %v", c.publication, c.table, err)
		case c.refused != "" && (!errors.As(err, &coded) || coded.ExitCode() != 2 || coded.Hint() == "" || !strings.Contains(err.Error(), c.refused)):
			t.Errorf("publication %s, table %q: got %v, want a refusal with a remedy that says %q", c.publication, c.table, err, c.refused)
		case !strings.Contains(log.String(), c.warns):
			t.Errorf("publication %s: the log says %q, want %q", c.publication, log.String(), c.warns)
		}
	}
}

// TestOutboxThatIsMadeAgain: the outbox may be dropped and made again, also under another name. A relay that
// stays up looks with each session which table it is, so that its rows aren't taken for those of a stranger.
func TestOutboxThatIsMadeAgain(t *testing.T) {
	conn, err := pgx.Connect(t.Context(), envtest.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background()) // the test is over
	o := &Outbox{Catalog: catalog.New(lender{conn}, "cdc_relay"), Publication: "one", Log: zerolog.Nop(), Shape: shape.Config{Topic: "t"}}
	for table, prepare := range []string{"create publication one", "drop table outbox0", "drop table outbox1"} {
		name := fmt.Sprint("outbox", min(table, 1)) // a new name, and then the same one again
		if _, err := conn.Exec(t.Context(), prepare+`;
			create table `+name+` (id bigserial primary key, entity_id text, event_type text, payload jsonb, created_at timestamptz);
			alter publication one add table `+name); err != nil {
			t.Fatal(err)
		}
		var oid uint32
		if err := conn.QueryRow(t.Context(), "select $1::text::regclass::oid", name).Scan(&oid); err != nil {
			t.Fatal(err)
		}
		if _, err := o.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		if class, err := o.Classify(t.Context(), oid, "public", name); err != nil || class != decode.Outbox {
			t.Errorf("after %q the outbox %s is of class %d, error %v", prepare, name, class, err)
		}
	}
}
