package task_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/memory"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// sweepingStore counts the calls of Sweep.
type sweepingStore struct {
	*memory.FleetStore
	sweeps *atomic.Int64
}

func (s sweepingStore) Sweep(ctx context.Context, now time.Time, limit int) ([]task.Record, time.Time, error) {
	s.sweeps.Add(1)
	return s.FleetStore.Sweep(ctx, now, limit)
}

// The members of a fleet do not all sweep whenever a task expires.
func TestMembersShareSweeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const members, tasks = 10, 400
		f := memory.NewFleet()
		var sweeps atomic.Int64
		var last *task.Manager
		for range members {
			last = newManager(t, task.Options{Store: sweepingStore{f.Store(), &sweeps}, Limits: task.Limits{Tasks: -1, Rate: -1}})
		}
		synctest.Wait()
		sweeps.Store(0)
		for i := range tasks { // one expires every 50 ms, for 20 s
			create(t, last, task.Request{Work: returns("{}"), Task: &mcp.TaskMetadata{TTL: new(int64(60_000 + 50*i))}})
		}
		time.Sleep(time.Minute)
		before := sweeps.Load()
		time.Sleep(20 * time.Second)
		during := sweeps.Load() - before
		time.Sleep(2 * members * 100 * time.Millisecond)
		synctest.Wait()
		if during < 50 || during > 400 {
			t.Errorf("swept %d times in 20 s", during)
		}
		for r, err := range f.Store().Scan(t.Context()) {
			t.Fatalf("task %s is left, %v", r.ID, err)
		}
	})
}
