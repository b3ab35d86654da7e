package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// stopped says which signal ended the work.
type stopped struct{ signal os.Signal }

func (s stopped) Error() string { return "stopped by the signal " + s.signal.String() }

// signals returns a context that ends with the first SIGINT or SIGTERM. The second one ends the
// process at once with exit code 1. The returned function gives the signals back.
func (a *app) signals(parent context.Context) (context.Context, func()) {
	c := make(chan os.Signal, 2) // two, so that neither is lost
	signal.Notify(c, os.Interrupt, syscall.SIGTERM)
	ctx, stop := onSignals(parent, c, func() {
		fmt.Fprintln(a.err, "cdc-relay: stop: a second signal came before it was done; what was in flight may be published again")
		a.exit(exitUnexpected)
	})
	return ctx, func() {
		signal.Stop(c)
		stop()
	}
}

// onSignals ends the context at the first signal and calls second at the second.
func onSignals(parent context.Context, c <-chan os.Signal, second func()) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case s := <-c:
			cancel(stopped{s})
		case <-done:
			return
		}
		select {
		case <-c:
			second()
		case <-done:
		}
	}()
	return ctx, func() {
		close(done)
		cancel(nil)
		<-ended // so that a late signal finds nobody
	}
}

// write prints to a command's output.
func write(w io.Writer, format string, args ...any) error {
	_, err := fmt.Fprintf(w, format, args...)
	return err
}
