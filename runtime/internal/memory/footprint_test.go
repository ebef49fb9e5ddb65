package memory_test

import (
	"context"
	"encoding/json"
	"runtime"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/memory"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// Small finished tasks have the largest overhead in relation to their texts. They take at most
// twice the bytes that count towards Limits.Bytes.
func TestMemoryOfSmallTasksIsWithinTwiceTheirBytes(t *testing.T) {
	const tasks = 20_000
	store := memory.New()
	m, err := task.New(t.Context(), task.Options{Store: store, Updates: task.Updates{Quiet: true}, Limits: task.Limits{Tasks: -1, Rate: -1}})
	if err != nil {
		t.Fatal(err)
	}
	work := func(context.Context, *task.Run) (codec.Encoder, error) { return new(mcp.CallToolResult), nil }
	before := heap()
	for range tasks {
		if _, err := m.Create(t.Context(), task.Request{Principal: "ada", Method: "tools/call", Params: json.RawMessage(`{"name":"t"}`), Work: work}); err != nil {
			t.Fatal(err)
		}
	}
	m.Close(context.Background())
	held := int64(heap()-before) / tasks
	counted := int64(0)
	for r, err := range store.Scan(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		counted += r.Bytes
	}
	counted /= tasks
	if held > 2*counted {
		t.Errorf("a task holds %d bytes and counts as %d", held, counted)
	}
	runtime.KeepAlive(m)
}

// heap returns the number of bytes of reachable objects.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}
