package sql

import (
	"strings"
	"sync"
	"testing"
)

// TestSetupsAtOnce: several setups at the same time, as from the pods of one deployment, make
// everything once.
func TestSetupsAtOnce(t *testing.T) {
	_, url := database(t)
	reports := make([]Report, 4)
	var wg sync.WaitGroup
	for i := range reports {
		conn := connect(t, url)
		wg.Go(func() {
			var err error
			if reports[i], err = Setup(t.Context(), conn, Options{}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	made := 0
	for _, r := range reports {
		made += len(r.Made)
	}
	if made != 3 {
		t.Errorf("made %d things, want 3: %+v", made, reports)
	}
}

// TestPrintWithoutOutbox: the application's table isn't in the script.
func TestPrintWithoutOutbox(t *testing.T) {
	o := Options{SkipOutbox: true, Table: "shop.events"}
	script, err := Print(o)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(script, "create table \"shop\"") || strings.Contains(script, "trigger") || !strings.Contains(script, `for table "shop"."events"`) {
		t.Error(script)
	}
	conn, _ := database(t)
	exec(t, conn, `create schema shop; create table shop.events (a int)`)
	exec(t, conn, script)
	if r := setUp(t, conn, o); len(r.Made) > 0 || len(r.Kept) != 3 {
		t.Errorf("after the script: made %q, kept %q", r.Made, r.Kept)
	}
}
