package embedding

import (
	"context"
	"testing"
	"testing/synctest"
)

func TestAbandonedRequestsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var waits Waits
		var waiting []context.Context
		var finish []func()
		request := func(by Waiter) {
			http, end := context.WithCancel(context.Background())
			ctx, done := waits.Add(context.Background(), http, by, true)
			waiting, finish = append(waiting, ctx), append(finish, done)
			end()
			synctest.Wait()
		}
		request(Waiter{"other", "ada"})
		request(Waiter{"one", "eve"})
		for range maxAbandoned {
			request(Waiter{"one", "ada"})
		}
		for i, ctx := range waiting {
			if ctx.Err() != nil {
				t.Fatalf("request %d has ended: %v", i, context.Cause(ctx))
			}
		}
		request(Waiter{"one", "ada"})
		for i, ctx := range waiting {
			if ended := context.Cause(ctx) == errAbandoned; ended != (i == 2) {
				t.Errorf("request %d: got %v", i, context.Cause(ctx))
			}
		}
		for _, done := range finish {
			done()
		}
		if len(waits.by) > 0 {
			t.Errorf("%d sessions are left", len(waits.by))
		}
	})
}

func TestRequestsEndWithSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var waits Waits
		http, end := context.WithCancel(context.Background())
		by := Waiter{"one", "ada"}
		resumable, done := waits.Add(t.Context(), http, by, true)
		defer done()
		plain, done := waits.Add(t.Context(), http, by, false)
		defer done()
		other, done := waits.Add(t.Context(), t.Context(), Waiter{"one", "eve"}, true)
		defer done()
		end()
		synctest.Wait()
		if context.Cause(plain) != context.Canceled || resumable.Err() != nil {
			t.Errorf("after the HTTP request: %v, %v", context.Cause(plain), context.Cause(resumable))
		}
		waits.End(by)
		if context.Cause(resumable) != errSessionEnded || other.Err() != nil {
			t.Errorf("after the session: %v, %v", context.Cause(resumable), context.Cause(other))
		}
	})
}
