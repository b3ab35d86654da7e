package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/devenv/envtest"
)

// asCommand makes the test binary the command itself, so that what is tested is a process
// with its streams, signals and exit code.
const asCommand = "TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
		return
	}
	envtest.Main(m)
}

// result is how a process ended.
type result struct {
	code     int
	out, err string
}

// process prepares the command with an environment of its own: nothing of the tester's
// DATABASE_URL gets in.
func process(ctx context.Context, env []string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append([]string{asCommand + "=1", "PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, env...)
	return cmd
}

func runProcess(t *testing.T, env []string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := process(ctx, env, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "relay.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const help = "hint: cdc-relay --help lists the commands, and each has a --help of its own\n"

// Each mistake has one message on standard error, nothing on standard output, and 2.
func TestBadCommandLines(t *testing.T) {
	bad := file(t, "kafka: {brokers: a, compresion: lz4}\nreplay: {window: 1h}\n")
	for _, row := range []struct {
		args, env []string
		want      string
	}{
		{[]string{"unknown"}, nil, "cdc-relay: usage: unknown command \"unknown\" for \"cdc-relay\"\n" + help},
		{[]string{"run", "extra"}, nil, "cdc-relay: usage: unknown command \"extra\" for \"cdc-relay run\"\n" + help},
		{[]string{"run", "--unknown"}, nil, "cdc-relay: usage: unknown flag: --unknown\n" + help},
		{[]string{"run", "--topic"}, nil, "cdc-relay: usage: flag needs an argument: --topic\n" + help},
		{[]string{"version", "-o", "xml"}, nil, "cdc-relay: usage: invalid argument \"xml\" for \"-o, --output\" flag: it is neither text nor json\n" + help},
		{[]string{"config", "unknown"}, nil, "cdc-relay: usage: unknown command \"unknown\" for \"cdc-relay config\"\n" + help},
		{[]string{"demo", "--events", "many"}, nil, "cdc-relay: usage: invalid argument \"many\" for \"--events\" flag: must be an integer\n" + help},
		{[]string{"demo", "--for", "3s"}, nil, "cdc-relay: demo: for needs a rate: together they say how many events there are\n"},
		{
			[]string{"run"},
			nil,
			"cdc-relay: configuration: postgres.url: is not set\n" +
				"hint: set the variable DATABASE_URL, --database-url or the key postgres.url in the file of --config\n" +
				"cdc-relay: configuration: kafka.brokers: is not set\n" +
				"hint: set the variable KAFKA_BROKERS, --kafka-brokers or the key kafka.brokers in the file of --config\n" +
				"cdc-relay: configuration: topic.name: is not set\n" +
				"hint: set the variable CDC_RELAY_TOPIC_NAME, --topic or the key topic.name in the file of --config\n",
		},
		{
			[]string{"run", "--config", bad, "--topic", "a b", "--partition-count", "x"},
			[]string{"DATABASE_URL=postgres://u:hunter2#@h/db", "CDC_RELAY_TOPC=x"},
			"cdc-relay: configuration: CDC_RELAY_TOPC (environment): is no variable of cdc-relay\nhint: did you mean CDC_RELAY_TOPIC_NAME?\n" +
				"cdc-relay: configuration: kafka.compresion (" + bad + ":1): is no key of the configuration\nhint: did you mean kafka.compression?\n" +
				"cdc-relay: configuration: postgres.url (variable DATABASE_URL): contains a #\nhint: percent-encode special characters of the password in a URL, or keep it out of it with postgres.password_file\n" +
				"cdc-relay: configuration: topic.name \"a b\" (flag --topic): is not a name of a topic\nhint: use 1 to 249 of the characters a-z, A-Z, 0-9, dot, _ and -\n" +
				"cdc-relay: configuration: partition.count \"x\" (flag --partition-count): is not a whole number\nhint: give a whole number from 1 to 100000\n" +
				"cdc-relay: configuration: kafka.brokers \"a\" (" + bad + ":1): \"a\" is not host:port\nhint: write brokers as host:port with commas between them, like kafka:9092\n" +
				"cdc-relay: configuration: replay.window \"1h\" (" + bad + ":2): is not supported yet\nhint: leave it out\n",
		},
		{
			[]string{"run", "--config", "/nonexistent"},
			nil,
			"cdc-relay: configuration: file \"/nonexistent\": can't be read: no such file or directory\nhint: name a YAML file with --config or CDC_RELAY_CONFIG\n",
		},
		{
			[]string{"config", "check", "--on-reject", "park"},
			[]string{"DATABASE_URL=host=h", "KAFKA_BROKERS=k:9092", "CDC_RELAY_TOPIC_NAME=t"},
			"cdc-relay: configuration: on_reject.policy \"park\" (flag --on-reject): is not supported yet\nhint: use halt\n",
		},
		{[]string{"setup"}, nil, "cdc-relay: configuration: postgres.url: is not set\nhint: set the variable DATABASE_URL, --database-url or the key postgres.url in the file of --config\n"},
		{[]string{"setup", "--print", "--table", `"a.b".c`}, nil, "cdc-relay: usage: setup can't make a table in a schema with a dot in its name: \"a.b\".c\n" + help},
	} {
		got := runProcess(t, row.env, row.args...)
		if got.code != 2 || got.out != "" || got.err != row.want {
			t.Errorf("%q: exit code %d, out %q\n got %s\nwant %s", row.args, got.code, got.out, got.err, row.want)
		}
		if strings.Contains(got.err, "hunter2") {
			t.Errorf("%q shows the password", row.args)
		}
	}
}

// Every command that is there explains itself, and no other is there.
func TestHelp(t *testing.T) {
	got := runProcess(t, nil)
	if got.code != 0 || got.err != "" {
		t.Errorf("exit code %d, %s", got.code, got.err)
	}
	for _, name := range []string{"run", "demo", "setup", "config", "version"} {
		if !strings.Contains(got.out, "\n  "+name+" ") {
			t.Errorf("%s isn't in\n%s", name, got.out)
		}
		if one := runProcess(t, nil, name, "--help"); one.code != 0 || !strings.Contains(one.out, "Usage:") {
			t.Errorf("%s --help: exit code %d, %s", name, one.code, one.out)
		}
	}
	a := &app{}
	for _, c := range a.root().Commands() {
		if !slices.Contains([]string{"run", "demo", "setup", "config", "version"}, c.Name()) {
			t.Errorf("command %s is no part of this version", c.Name())
		}
	}
}

// run has a flag for every key that has one, and no two commands give one flag two meanings.
func TestFlagsOfKeys(t *testing.T) {
	root := (&app{}).root()
	cmd, _, err := root.Find([]string{"run"})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range config.Flags() {
		if cmd.Flags().Lookup(f.Name) == nil {
			t.Errorf("run has no --%s", f.Name)
		}
	}
}

func TestConfigShow(t *testing.T) {
	path := file(t, "postgres: {url: 'postgres://u:hunter2@h/db'}\nkafka: {sasl: {mechanism: plain, username: u, password: hunter2}}\n")
	env := []string{"CDC_RELAY_CONFIG=" + path, "KAFKA_BROKERS=a:1,b:2"}
	args := []string{"config", "show", "--topic=orders", "--tombstones", "--ignore-tables", "a.b", "--ignore-tables", "a.c"}
	got := runProcess(t, env, args...)
	if got.code != 0 || got.err != "" {
		t.Fatalf("exit code %d, %s", got.code, got.err)
	}
	for _, want := range []string{
		"postgres:\n  url: \"postgres://u:xxxxx@h/db\"", "# " + path + ":1", "\n  name: orders                               # flag --topic\n",
		"brokers: [a:1, b:2]", "# variable KAFKA_BROKERS", "  tombstones: true                           # flag --tombstones\n",
		"  ignore_tables: [a.b, a.c]                  # flag --ignore-tables\n", "\n    password: xxxxx ", "  drain: 20s                                 # default\n",
	} {
		if !strings.Contains(got.out, want) {
			t.Errorf("%q isn't in\n%s", want, got.out)
		}
	}
	js := runProcess(t, env, append(args, "--output", "json")...)
	var settings []config.Setting
	if err := json.Unmarshal([]byte(js.out), &settings); err != nil {
		t.Fatal(err)
	}
	origin := map[string]string{}
	for _, s := range settings {
		origin[s.Key] = s.Origin
	}
	for key, want := range map[string]string{
		"topic.name": "flag --topic", "kafka.brokers": "variable KAFKA_BROKERS", "postgres.url": path + ":1", "log.level": "default",
	} {
		if origin[key] != want {
			t.Errorf("origin of %s = %q, want %q", key, origin[key], want)
		}
	}
	if strings.Contains(got.out+js.out, "hunter2") {
		t.Error("a password is shown")
	}
}

func TestConfigCheck(t *testing.T) {
	got := runProcess(t, []string{"DATABASE_URL=postgres://u@h/db", "KAFKA_BROKERS=k:9092"}, "config", "check", "--topic", "orders")
	if got != (result{0, "the configuration is complete and valid\n", ""}) {
		t.Errorf("got %+v", got)
	}
}

func TestVersion(t *testing.T) {
	got := runProcess(t, nil, "version")
	if got.code != 0 || !strings.HasPrefix(got.out, "cdc-relay ") || !strings.Contains(got.out, ", go1.") {
		t.Errorf("got %+v", got)
	}
	var b build
	js := runProcess(t, nil, "version", "-o", "json")
	if err := json.Unmarshal([]byte(js.out), &b); err != nil || b.Version == "" || b.Go == "" || b.Platform == "" {
		t.Errorf("got %+v, %v", js, err)
	}
}

func TestNewBuild(t *testing.T) {
	info := &debug.BuildInfo{
		Main:     debug.Module{Version: "v1.2.3"},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "now"}, {Key: "vcs.modified", Value: "true"}},
	}
	for _, row := range []struct {
		linker string
		info   *debug.BuildInfo
		want   string
	}{
		{"", nil, "cdc-relay (devel), "},
		{"", info, "cdc-relay v1.2.3, commit abc with changes, "},
		{"v9", info, "cdc-relay v9, commit abc with changes, "},
		{"v9", nil, "cdc-relay v9, "},
	} {
		if got := newBuild(row.linker, row.info).String(); !strings.HasPrefix(got, row.want) {
			t.Errorf("got %q, want %q...", got, row.want)
		}
	}
}
