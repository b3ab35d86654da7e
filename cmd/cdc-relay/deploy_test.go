package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/cdc-relay/cdc-relay/internal/config"
)

// compose is the part of docker-compose.yml that can be judged without running it. Unknown
// fields are refused, so a misspelled one is seen.
type compose struct {
	Name     string
	Services map[string]service
	Configs  map[string]struct{ Content string }
	Volumes  map[string]any
}

type service struct {
	Image       string
	Build       string
	Command     []string
	Environment map[string]string
	Configs     []struct{ Source, Target string }
	Volumes     []string
	Ports       []string
	Healthcheck struct {
		Test              []string
		Interval, Timeout string
		Retries           int
	}
	DependsOn map[string]struct{ Condition string } `yaml:"depends_on"`
	StopGrace string                                `yaml:"stop_grace_period"`
	Restart   string
}

func (s service) environ() []string {
	var env []string
	for _, name := range slices.Sorted(maps.Keys(s.Environment)) {
		env = append(env, name+"="+s.Environment[name])
	}
	return env
}

func repositoryFile(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func readCompose(t *testing.T) compose {
	t.Helper()
	var c compose
	dec := yaml.NewDecoder(strings.NewReader(repositoryFile(t, "docker-compose.yml")), yaml.DisallowUnknownField())
	if err := dec.Decode(&c); err != nil {
		t.Fatal(err)
	}
	return c
}

// No engine runs the file here, so what it says is held against what the program knows.
func TestComposeRefersToWhatIsThere(t *testing.T) {
	c := readCompose(t)
	for _, want := range []string{"postgres", "kafka", "topic", "setup", "relay"} {
		if _, ok := c.Services[want]; !ok {
			t.Errorf("no service %s", want)
		}
	}
	for name, s := range c.Services {
		if (s.Image == "") == (s.Build == "") {
			t.Errorf("%s: wants an image or a build", name)
		}
		if s.Image != "" && (!strings.Contains(s.Image, ":") || strings.HasSuffix(s.Image, ":latest")) {
			t.Errorf("%s: the image %s has no version", name, s.Image)
		}
		for other, d := range s.DependsOn {
			on, ok := c.Services[other]
			switch {
			case !ok:
				t.Errorf("%s depends on %s, which isn't there", name, other)
			case d.Condition == "service_healthy" && len(on.Healthcheck.Test) < 2:
				t.Errorf("%s waits for the health of %s, which has no check", name, other)
			case d.Condition == "service_completed_successfully" && on.Restart != "no":
				t.Errorf("%s waits for the end of %s, which restarts", name, other)
			case !slices.Contains([]string{"service_healthy", "service_completed_successfully"}, d.Condition):
				t.Errorf("%s: condition %q", name, d.Condition)
			}
		}
		for _, cfg := range s.Configs {
			if c.Configs[cfg.Source].Content == "" || cfg.Target == "" {
				t.Errorf("%s: config %s is empty", name, cfg.Source)
			}
		}
		for _, v := range s.Volumes {
			volume, _, _ := strings.Cut(v, ":")
			if _, ok := c.Volumes[volume]; !ok {
				t.Errorf("%s: volume %s isn't there", name, volume)
			}
		}
	}
}

// The relay and the setup are given variables, flags and commands that exist, and enough.
func TestComposeConfiguresTheRelay(t *testing.T) {
	c := readCompose(t)
	for name, row := range map[string]struct {
		command string
		need    []string
	}{
		"relay": {"run", config.RunNeeds()},
		"setup": {"setup", []string{"postgres.url"}},
	} {
		s := c.Services[name]
		cmd, args, err := (&app{}).root().Find(s.Command)
		if err != nil || cmd.Name() != row.command {
			t.Errorf("%s: command %q: %v", name, s.Command, err)
			continue
		}
		if err := cmd.ParseFlags(args); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		flags := map[string]string{}
		for _, f := range config.Flags() {
			if flag := cmd.Flags().Lookup(f.Name); flag != nil && flag.Changed {
				flags[f.Key] = flag.Value.String()
			}
		}
		cfg, err := config.Load(config.Sources{Environ: s.environ(), Flags: flags, Need: row.need})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if row.command != "run" {
			continue
		}
		if grace, err := time.ParseDuration(s.StopGrace); err != nil || grace <= cfg.Shutdown.Drain+2*time.Second {
			t.Errorf("%s is killed after %s, and drains for %s (%v)", name, s.StopGrace, cfg.Shutdown.Drain, err)
		}
		if topic := "--topic=" + cfg.Topic.Name; !slices.Contains(c.Services["topic"].Command, topic) {
			t.Errorf("nobody makes the topic %s", cfg.Topic.Name)
		}
		for _, b := range cfg.Kafka.Brokers {
			if !strings.HasSuffix(c.Services["kafka"].Environment["KAFKA_ADVERTISED_LISTENERS"], "//"+b) {
				t.Errorf("the broker doesn't call itself %s", b)
			}
		}
		_, port, _ := strings.Cut(cfg.Admin.Listen, ":")
		if !slices.ContainsFunc(s.Ports, func(p string) bool { return strings.HasSuffix(p, ":"+port) }) {
			t.Errorf("port %s isn't published by %q", port, s.Ports)
		}
	}
}

func TestComposeServers(t *testing.T) {
	c := readCompose(t)
	pg := c.Services["postgres"]
	if !slices.Contains(pg.Command, "wal_level=logical") {
		t.Errorf("Postgres runs %q", pg.Command)
	}
	if sql := c.Configs["relay-role"].Content; !strings.Contains(sql, "replication") {
		t.Errorf("the relay's role can't replicate: %s", sql)
	}
	kafka := c.Services["kafka"].Environment
	for _, want := range []string{
		"KAFKA_NODE_ID", "KAFKA_PROCESS_ROLES", "KAFKA_CONTROLLER_QUORUM_VOTERS", "KAFKA_CONTROLLER_LISTENER_NAMES", "KAFKA_LISTENERS",
		"KAFKA_ADVERTISED_LISTENERS", "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP",
	} {
		if kafka[want] == "" {
			t.Errorf("a KRaft node needs %s", want)
		}
	}
	// Every listener has a protocol.
	protocols := kafka["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"]
	for l := range strings.SplitSeq(kafka["KAFKA_LISTENERS"], ",") {
		name, _, _ := strings.Cut(l, "://")
		if !strings.Contains(","+protocols, ","+name+":") {
			t.Errorf("listener %s has no protocol", name)
		}
	}
}

func TestDockerfile(t *testing.T) {
	text := repositoryFile(t, "Dockerfile")
	goVersion := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(repositoryFile(t, "go.mod"))
	for what, pattern := range map[string]string{
		"the module's Go":       fmt.Sprintf(`(?m)^FROM golang:%s-`, regexp.QuoteMeta(goVersion[1])),
		"a static binary":       `CGO_ENABLED=0 go build -trimpath .* -o /out/cdc-relay \./cmd/cdc-relay\n`,
		"a base without shell":  `(?m)^FROM gcr\.io/distroless/static-[a-z0-9]+:nonroot$`,
		"a user by number":      `(?m)^USER 65532:65532$`,
		"no shell between":      `(?m)^ENTRYPOINT \["/usr/local/bin/cdc-relay"\]$`,
		"the version variable":  `-X main\.version=\$\{VERSION\}`,
		"the licence":           `(?m)^COPY LICENSE `,
		"the signal for a stop": `(?m)^STOPSIGNAL SIGTERM$`,
	} {
		if !regexp.MustCompile(pattern).MatchString(text) {
			t.Errorf("%s isn't in the Dockerfile", what)
		}
	}
	var env []string
	for _, m := range regexp.MustCompile(`(?m)^ENV (.*)$`).FindAllStringSubmatch(text, -1) {
		env = append(env, m[1])
	}
	if _, err := config.Load(config.Sources{Environ: env}); err != nil || len(env) == 0 {
		t.Errorf("the variables %q: %v", env, err)
	}
}
