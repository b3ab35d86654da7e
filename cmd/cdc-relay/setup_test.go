package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/devenv/envtest"
)

type setupReport struct{ Made, Kept, Warnings []string }

func TestSetup(t *testing.T) {
	url := envtest.Database(t)
	env := []string{"DATABASE_URL=" + url}
	args := []string{"setup", "--table", "shop.events", "--publication", "shop_outbox", "--schema", "relay_meta", "--output", "json"}
	setup := func() setupReport {
		t.Helper()
		got := runProcess(t, env, append(args, "--skip-outbox=false")...)
		var r setupReport
		if err := json.Unmarshal([]byte(got.out), &r); err != nil || got.code != 0 || got.err != "" {
			t.Fatalf("%+v, %v", got, err)
		}
		return r
	}
	missing := runProcess(t, env, args...)
	if missing.code != 2 || !strings.Contains(missing.err, "shop") || !strings.Contains(missing.err, "\nhint: ") {
		t.Errorf("without the table's schema: %+v", missing)
	}
	execute(t, url, "create schema shop")
	first := setup()
	for _, want := range []string{"relay_meta", "shop.events", "shop_outbox"} {
		if !slices.ContainsFunc(first.Made, func(s string) bool { return strings.Contains(strings.ReplaceAll(s, `"`, ""), want) }) {
			t.Errorf("%s isn't in %q", want, first.Made)
		}
	}
	if again := setup(); len(again.Made) != 0 || len(again.Kept) == 0 {
		t.Errorf("the second time made %q and kept %q", again.Made, again.Kept)
	}
	text := runProcess(t, env, "setup", "--table", "shop.events", "--publication", "shop_outbox", "--schema", "relay_meta")
	if text.code != 0 || !strings.HasPrefix(text.out, "kept:    ") {
		t.Errorf("as text: %+v", text)
	}
}

func TestSetupRefuses(t *testing.T) {
	s := newSource(t)
	plain := s.role("", "hunter2")
	for name, row := range map[string]struct {
		env  string
		code int
		want string
	}{
		"wrong password": {s.as(plain, "hunter3"), 2, "28P01"},
		"no privilege":   {s.as(plain, "hunter2"), 2, "setup --print"},
		"nobody there":   {"postgres://u:hunter2@127.0.0.1:1/db", 1, "127.0.0.1:1"},
	} {
		got := runProcess(t, []string{"DATABASE_URL=" + row.env}, "setup", "--schema", "another")
		if got.code != row.code || got.out != "" || !strings.HasPrefix(got.err, "cdc-relay: ") || !strings.Contains(got.err, row.want) {
			t.Errorf("%s: %+v, want exit code %d and %q", name, got, row.code, row.want)
		}
		leaks(t, got.err)
	}
}

// What --print prints does what setup does: a setup after it finds everything.
func TestSetupPrints(t *testing.T) {
	got := runProcess(t, nil, "setup", "--print")
	if got.code != 0 || got.err != "" {
		t.Fatalf("%+v", got)
	}
	url := envtest.Database(t)
	execute(t, url, got.out)
	rep := runProcess(t, []string{"DATABASE_URL=" + url}, "setup", "-o", "json")
	var r setupReport
	if err := json.Unmarshal([]byte(rep.out), &r); err != nil || len(r.Made) != 0 {
		t.Errorf("after what was printed, setup still made %q: %+v", r.Made, rep)
	}
	role := runProcess(t, nil, "setup", "--print", "--role", `odd "role"`, "--table", "a.b", "--publication", "p", "--schema", "m")
	for _, want := range []string{`"odd ""role"""`, `"a"."b"`, `"p"`, `"m"`} {
		if role.code != 0 || !strings.Contains(role.out, want) {
			t.Errorf("%s isn't in what is printed (exit code %d)", want, role.code)
		}
	}
}

func TestSetupOptions(t *testing.T) {
	cfg, err := config.Load(config.Sources{Flags: map[string]string{"outbox.tables": `Shop."my.events"`, "postgres.schema": "m", "publication": "p", "slot.name": "s"}})
	if err != nil {
		t.Fatal(err)
	}
	o, err := setupOptions(cfg, "r", true)
	if err != nil || o.Table != "Shop.my.events" || o.Schema != "m" || o.Publication != "p" || o.Role != "r" || !o.SkipOutbox {
		t.Errorf("got %+v, %v", o, err)
	}
}
