package task_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
)

func TestWatchReportsWhatRequestorsSee(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := task.New(t.Context(), task.Options{Store: memory.New()})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close(t.Context())
		next := make(chan func(ctx context.Context, run *task.Run))
		create := func(principal string, next chan func(ctx context.Context, run *task.Run)) string {
			created, err := m.Create(t.Context(), task.Request{
				Principal: principal, Method: "tools/call", Restartable: true, Task: &mcp.TaskMetadata{TTL: new(int64(60_000))},
				Work: func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
					for {
						select {
						case f := <-next:
							f(ctx, run)
						case <-ctx.Done():
							return nil, context.Cause(ctx)
						}
					}
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			return created.TaskID
		}
		id, foreign := create("ann", next), create("bob", nil)
		var mu sync.Mutex
		var got []string
		changed := func(id string) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, id)
		}
		w, known, err := m.Internals(boundary.Caller{}).Watch(t.Context(), "ann", []string{id, foreign, "unknown", id}, changed)
		if err != nil || !slices.Equal(known, []string{id}) {
			t.Fatalf("got %q, %v", known, err)
		}
		expect := func(what string, reports bool) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if reports != (len(got) > 0) || slices.ContainsFunc(got, func(other string) bool { return other != id }) {
				t.Errorf("%s: got %q", what, got)
			}
			got = nil
		}
		expect("at the beginning", false)
		next <- func(ctx context.Context, run *task.Run) { run.Record(ctx, task.Entry{Kind: 9, Key: "a"}) }
		expect("an entry of the journal", false)
		next <- func(ctx context.Context, run *task.Run) { run.SetStatusMessage(ctx, "half way") }
		expect("a status message", true)
		if _, err := w.Get(t.Context(), foreign, "x"); err == nil {
			t.Error("the Watch reads a task of another principal")
		}
		w.Remove(id)
		if _, err := m.Cancel(t.Context(), "ann", id, nil); err != nil {
			t.Fatal(err)
		}
		expect("after Remove", false)
		late, _, err := m.Internals(boundary.Caller{}).Watch(t.Context(), "ann", []string{id}, changed)
		if err != nil {
			t.Fatal(err)
		}
		expect("a terminal task", true)
		time.Sleep(time.Minute)
		expect("an expired task", true)
		late.Close()
		w.Close()
	})
}
