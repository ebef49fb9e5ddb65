package gosdk

import (
	"context"
	"testing"
	"testing/synctest"
)

func TestAbandonedResultsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tasks := &Tasks{abandoned: make(map[string][]*abandoned)}
		var waiting []context.Context
		var done []func()
		request := func(session string) {
			http, end := context.WithCancel(context.Background())
			ctx, finish := tasks.outlive(context.Background(), http, session)
			waiting, done = append(waiting, ctx), append(done, finish)
			end()
			synctest.Wait()
		}
		request("other")
		for range maxAbandoned {
			request("one")
		}
		for i, ctx := range waiting {
			if ctx.Err() != nil {
				t.Fatalf("request %d has ended: %v", i, context.Cause(ctx))
			}
		}
		request("one")
		for i, ctx := range waiting {
			if ended := context.Cause(ctx) == errAbandoned; ended != (i == 1) {
				t.Errorf("request %d: got %v", i, context.Cause(ctx))
			}
		}
		for _, finish := range done {
			finish()
		}
		if len(tasks.abandoned) > 0 {
			t.Errorf("%d sessions are left", len(tasks.abandoned))
		}
	})
}
