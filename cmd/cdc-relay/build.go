package main

import (
	"context"
	"errors"

	"github.com/rs/zerolog"

	"github.com/cdc-relay/cdc-relay/internal/config"
)

// runRelay builds the stages from the configuration and runs them until ctx ends.
func runRelay(context.Context, config.Config, bool, zerolog.Logger) error {
	return errors.New("run: the stages are not wired yet")
}
