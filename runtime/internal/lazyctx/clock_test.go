package lazyctx_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/runtime/internal/lazyctx"
)

func TestHoldPausesTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("too slow")
		inner, outer := new(lazyctx.Clock), lazyctx.WithTimeout(t.Context(), 10*time.Second, nil)
		defer outer.Cancel()
		ctx, cancel := inner.WithTimeout(outer, 5*time.Second, cause)
		defer cancel()
		start := time.Now()
		time.Sleep(time.Second)
		first := lazyctx.Hold(context.WithoutCancel(ctx))
		time.Sleep(time.Second)
		second := lazyctx.Hold(ctx)
		time.Sleep(time.Hour)
		first()
		first() // no effect
		time.Sleep(time.Hour)
		if err := context.Cause(ctx); err != nil {
			t.Fatalf("ended by %v while held", err)
		}
		second()
		<-ctx.Done()
		if took := time.Since(start); took != 2*time.Hour+6*time.Second || context.Cause(ctx) != cause {
			t.Errorf("the inner timeout ends after %v because of %v", took, context.Cause(ctx))
		}
		<-outer.Done()
		if took := time.Since(start); took != 2*time.Hour+11*time.Second || context.Cause(outer) != context.DeadlineExceeded {
			t.Errorf("the outer timeout ends after %v because of %v", took, context.Cause(outer))
		}
	})
}

func TestHoldShorterThanTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock, start, fired := new(lazyctx.Clock), time.Now(), make(chan time.Time, 1)
		stop := clock.AfterFunc(time.Minute, func() { fired <- time.Now() })
		release := clock.Hold()
		time.Sleep(time.Second)
		release()
		if took := (<-fired).Sub(start); took != 61*time.Second || stop() {
			t.Errorf("called after %v", took)
		}
	})
}

func TestStoppedTimerIsNotCalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := new(lazyctx.Clock)
		stop := clock.AfterFunc(time.Second, func() { t.Error("called") })
		release := clock.Hold()
		time.Sleep(time.Minute)
		if !stop() || stop() {
			t.Error("the timer was not stopped once")
		}
		release()
		time.Sleep(time.Minute)
	})
}
