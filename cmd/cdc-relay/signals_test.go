package main

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
)

func TestFirstSignalEndsTheContext(t *testing.T) {
	c := make(chan os.Signal)
	ctx, stop := onSignals(context.Background(), c, func() { t.Error("second, after one signal") })
	defer stop()
	if ctx.Err() != nil {
		t.Fatal("ended before any signal")
	}
	c <- syscall.SIGTERM
	<-ctx.Done()
	var s stopped
	if !errors.As(context.Cause(ctx), &s) || s.signal != syscall.SIGTERM {
		t.Errorf("cause %v, want the signal", context.Cause(ctx))
	}
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	c, second := make(chan os.Signal), make(chan struct{})
	ctx, stop := onSignals(context.Background(), c, func() { close(second) })
	c <- os.Interrupt
	<-ctx.Done()
	c <- os.Interrupt
	<-second
	stop()
}

func TestSignalsAreGivenBack(t *testing.T) {
	for range 2 {
		c := make(chan os.Signal, 2)
		ctx, stop := onSignals(context.Background(), c, func() { t.Error("a signal after the end") })
		stop()
		<-ctx.Done()
		c <- os.Interrupt
		c <- os.Interrupt
	}
}

func TestParentEndsTheContext(t *testing.T) {
	parent, cancel := context.WithCancel(context.Background())
	ctx, stop := onSignals(parent, nil, nil)
	defer stop()
	cancel()
	<-ctx.Done()
	if !errors.Is(context.Cause(ctx), context.Canceled) {
		t.Errorf("cause %v", context.Cause(ctx))
	}
}
