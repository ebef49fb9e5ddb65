package stall_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/stall"
)

func TestWaitEnds(t *testing.T) {
	cause := errors.New("enough")
	for name, test := range map[string]struct {
		end  func(changed, over chan struct{}, cancel context.CancelCauseFunc)
		want error
	}{
		"with the change":     {func(changed, _ chan struct{}, _ context.CancelCauseFunc) { close(changed) }, nil},
		"with the connection": {func(_, over chan struct{}, _ context.CancelCauseFunc) { close(over) }, transport.ErrClosed},
		"with the context":    {func(_, _ chan struct{}, cancel context.CancelCauseFunc) { cancel(cause) }, cause},
		"without progress":    {func(chan struct{}, chan struct{}, context.CancelCauseFunc) {}, transport.ErrStalled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				changed, over := make(chan struct{}), make(chan struct{})
				time.AfterFunc(time.Millisecond, func() { test.end(changed, over, cancel) })
				wait := stall.Wait{Timeout: time.Second, Progress: new(atomic.Uint64)}
				defer wait.Stop()
				if err := wait.For(ctx, changed, over); err != test.want {
					t.Errorf("got %v, want %v", err, test.want)
				}
			})
		})
	}
}

func TestWaitCountsFromTheLastProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		progress := new(atomic.Uint64)
		wait := stall.Wait{Timeout: time.Second, Progress: progress}
		defer wait.Stop()
		until := func() (took time.Duration) {
			start := time.Now()
			for {
				switch err := wait.For(t.Context(), nil, nil); err {
				case nil:
				case transport.ErrStalled:
					return time.Since(start)
				default:
					t.Fatal(err)
				}
			}
		}
		time.AfterFunc(900*time.Millisecond, func() { progress.Add(1) })
		if took := until(); took != 2*time.Second { // noticed after one second
			t.Errorf("stalled after %v, want 2s", took)
		}
		wait.Restart()
		if took := until(); took != time.Second {
			t.Errorf("after Restart: stalled after %v, want 1s", took)
		}
	})
}
