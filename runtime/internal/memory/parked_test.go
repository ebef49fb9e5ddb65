package memory_test

import (
	"context"
	"encoding/json"
	"runtime"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/memory"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// park fills a store with parked tasks, which wait for an answer and for a time.
func park(t testing.TB, store task.Store, tasks int) {
	t.Helper()
	created := time.Now().UTC().Truncate(time.Microsecond)
	for n := range tasks {
		r := task.Record{
			ID: ids(n), Owner: "ada", Status: mcp.TaskStatusInputRequired, Created: created, Updated: created, Restartable: true,
			Method: mcp.MethodToolsCall, Params: json.RawMessage(`{"name":"t"}`), Bytes: 700,
			InputRequests: []task.InputRequest{{Number: 1, Key: "k", Occurrence: 1, Method: mcp.MethodElicitationCreate, Params: json.RawMessage(`{}`)}},
			Durable:       &task.Durable{LastInput: 1, Parked: true, Wake: created.Add(time.Hour + time.Duration(n)*time.Millisecond)},
		}
		if _, err := store.Create(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
}

// ids returns the id of a task, which has the length of real ones.
func ids(n int) string {
	id := []byte("AAAAAAAAAAAAAAAAAAAAAAAAAA")
	for i := len(id) - 1; n > 0; i-- {
		id[i] = byte('A' + n%26)
		n /= 26
	}
	return string(id)
}

// manage starts a Manager for a store with parked tasks.
func manage(t testing.TB, store task.Store) *task.Manager {
	t.Helper()
	m, err := task.New(t.Context(), task.Options{
		Store: store, Updates: task.Updates{Quiet: true}, TTL: task.TTL{Unlimited: true}, Limits: task.Limits{Tasks: -1, Bytes: -1, Rate: -1},
		Recovery: task.Recovery{Recover: func(task.Record) task.Work {
			return func(ctx context.Context, run *task.Run) (codec.Encoder, error) { return new(mcp.CallToolResult), nil }
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// A parked task that New finds takes no goroutine and little memory in addition to its record.
func TestMemoryOfParkedTaskIsSmall(t *testing.T) {
	const tasks = 20_000
	store := memory.New()
	park(t, store, tasks)
	before := heap()
	m := manage(t, store)
	held := (heap() - before) / tasks
	if s := m.Stats(); s.Parked != tasks || s.Running != 0 {
		t.Errorf("%+v", s)
	}
	if held > 600 {
		t.Errorf("a parked task holds %d bytes in the Manager", held)
	}
	m.Close(context.Background())
}

// BenchmarkParked measures the memory of a million parked tasks in a Manager, in addition to their
// records, and how long New takes to recover one.
func BenchmarkParked(b *testing.B) {
	const tasks = 1_000_000
	store := memory.New()
	park(b, store, tasks)
	for range b.N {
		before, begin := heap(), time.Now()
		m := manage(b, store)
		took := time.Since(begin)
		b.ReportMetric(float64(heap()-before)/tasks, "bytes/task")
		b.ReportMetric(float64(took.Nanoseconds())/tasks, "ns/task")
		b.ReportMetric(float64(runtime.NumGoroutine()), "goroutines")
		m.Close(context.Background())
	}
}
