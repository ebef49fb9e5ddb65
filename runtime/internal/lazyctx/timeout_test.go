package lazyctx_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/runtime/internal/lazyctx"
)

func TestTimeoutBeginsWithWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("too slow")
		ctx := lazyctx.WithTimeout(t.Context(), time.Second, cause)
		defer ctx.Cancel()
		time.Sleep(time.Minute)
		if _, ok := ctx.Deadline(); ok || ctx.Err() != nil {
			t.Fatal("the timeout runs without a waiter")
		}
		start := time.Now()
		<-ctx.Done()
		if took := time.Since(start); took != time.Second || context.Cause(ctx) != cause {
			t.Errorf("ended after %v because of %v", took, context.Cause(ctx))
		}
	})
}

func TestTimeoutEndsWithParent(t *testing.T) {
	parent, cancel := context.WithCancel(t.Context())
	ctx := lazyctx.WithTimeout(parent, time.Hour, nil)
	defer ctx.Cancel()
	cancel()
	if ctx.Err() != context.Canceled {
		t.Errorf("Err is %v", ctx.Err())
	}
	<-ctx.Done()
}

func TestTimeoutBeginsOnce(t *testing.T) {
	var limited lazyctx.Timeout
	if !limited.Begin(t.Context(), time.Hour, nil) || limited.Begin(t.Context(), time.Hour, nil) {
		t.Error("want true from the first Begin only")
	}
}
