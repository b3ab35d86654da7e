package main

import (
	"io"
	"time"

	"github.com/rs/zerolog"

	"github.com/cdc-relay/cdc-relay/internal/config"
)

// newLogger writes what happens to w: for people on a terminal, for machines elsewhere.
func newLogger(w io.Writer, c config.Log) zerolog.Logger {
	level, err := zerolog.ParseLevel(c.Level)
	if err != nil {
		level = zerolog.InfoLevel // the configuration has checked it
	}
	tty := terminal(w)
	if c.Format == "console" || c.Format == "auto" && tty {
		w = zerolog.ConsoleWriter{Out: w, NoColor: !tty, TimeFormat: "15:04:05.000"}
	}
	zerolog.TimeFieldFormat = time.RFC3339Nano
	return zerolog.New(w).Level(level).With().Timestamp().Logger()
}
