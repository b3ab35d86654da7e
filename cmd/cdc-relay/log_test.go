package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/cdc-relay/cdc-relay/internal/config"
)

func TestLogger(t *testing.T) {
	var b bytes.Buffer
	log := newLogger(&b, config.Log{Level: "warn", Format: "auto"})
	log.Info().Msg("quiet")
	log.Warn().Str("slot", "s").Msg("loud")
	var line map[string]any
	if err := json.Unmarshal(b.Bytes(), &line); err != nil {
		t.Fatalf("%v: what isn't a terminal gets one line of JSON: %s", err, b.String())
	}
	if line["message"] != "loud" || line["level"] != "warn" || line["slot"] != "s" || line["time"] == nil {
		t.Errorf("got %v", line)
	}
	b.Reset()
	log = newLogger(&b, config.Log{Level: "trace", Format: "console"})
	log.Trace().Msg("low")
	if got := b.String(); !strings.Contains(got, "TRC low") || strings.Contains(got, "\x1b[") {
		t.Errorf("got %q, want a plain line without colors", got)
	}
	for _, level := range []string{"trace", "debug", "info", "warn", "error"} {
		if got := newLogger(&b, config.Log{Level: level}).GetLevel(); got.String() != level {
			t.Errorf("level %s is taken as %s", level, got)
		}
	}
	if newLogger(&b, config.Log{}).GetLevel() != zerolog.NoLevel && newLogger(&b, config.Log{}).GetLevel() != zerolog.InfoLevel {
		t.Error("no level is no reason to be silent")
	}
}
