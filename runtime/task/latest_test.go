package task_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/memory"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// The holder of a task reads its record for the journal, but neither before it records a step nor
// before it stores the outcome.
func TestHolderWritesWithoutReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		a, store := joinRacing(t, f, task.Options{}, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			if _, _, err := run.Journal(ctx); err != nil {
				return nil, err
			}
			for i := range 5 {
				if err := run.Record(ctx, task.Entry{Key: fmt.Sprint(i), Occurrence: 1}); err != nil {
					return nil, err
				}
			}
			return raw(`{}`), nil
		})
		var reads atomic.Int64
		store.set(hooks{afterGet: func(task.Record) error { reads.Add(1); return nil }})
		id := a.create(t, nil)
		synctest.Wait()
		if r := a.record(t, id); r.Status != mcp.TaskStatusCompleted {
			t.Errorf("the task is %s", r.Status)
		}
		if n := reads.Load(); n != 1 {
			t.Errorf("the record was read %d times", n)
		}
	})
}

// A step that the holder records keeps what another member has written meanwhile, and so does the
// outcome.
func TestHolderKeepsWritesOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		proceed, done := make(chan struct{}), make(chan struct{})
		a := join(t, f, task.Options{}, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			for _, key := range []string{"a", "b"} {
				if err := run.Record(ctx, task.Entry{Key: key, Occurrence: 1}); err != nil {
					return nil, err
				}
				<-proceed
			}
			entries, _, err := run.Journal(ctx)
			close(done)
			<-proceed
			return raw(fmt.Sprintf(`{"found":%d}`, len(entries))), err
		})
		b := join(t, f, task.Options{}, nil)
		id := a.create(t, nil)
		for i := range 2 {
			synctest.Wait()
			r := b.record(t, id)
			r.Trace = fmt.Sprint("trace ", i)
			if _, err := b.store.Update(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			proceed <- struct{}{}
		}
		<-done
		synctest.Wait()
		if r := b.record(t, id); r.Trace != "trace 1" || r.Durable.Recorded != 2 {
			t.Errorf("the record has trace %q and %d entries", r.Trace, r.Durable.Recorded)
		}
		r := b.record(t, id)
		r.Trace = "trace 2"
		if _, err := b.store.Update(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		proceed <- struct{}{}
		if got := found(t, result(t, b.Manager, id)); got != "2" {
			t.Errorf("found %s entries", got)
		}
		if r := b.record(t, id); r.Trace != "trace 2" {
			t.Errorf("the record of the completed task has trace %q", r.Trace)
		}
	})
}
