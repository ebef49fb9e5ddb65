package jetstream_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream/internal/natstest"
)

// In a rolling upgrade that adds a tool, its tasks run on the members that have it. The others are
// asked once.
func TestMembersWithoutTheToolAreOfferedNoTasks(t *testing.T) {
	c := natstest.Run(t, 1)
	var mu sync.Mutex
	refused := map[string]bool{} // by task id; a member may find a task while it is offered
	join := func(name string, tools []string, known ...string) *task.Manager {
		store, err := jetstream.Open(t.Context(), c.JetStream(t), jetstream.Options{})
		if err != nil {
			t.Fatal(err)
		}
		m, err := task.New(t.Context(), task.Options{
			Store: store, Member: task.Member{Name: name, Lease: time.Minute, Tools: tools},
			Recovery: task.Recovery{Recover: func(r task.Record) task.Work {
				if !slices.Contains(known, r.Name) {
					mu.Lock()
					defer mu.Unlock()
					refused[r.ID] = true
					return nil
				}
				return func(context.Context, *task.Run) (codec.Encoder, error) { return &mcp.CallToolResult{}, nil }
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close(context.Background()); store.Close() })
		return m
	}
	front := join("front", []string{})
	join("old", nil, "pack")
	join("new", nil, "pack", "gift")
	natstest.Until(t, "all joined", func() bool { return len(front.Members()) == 3 })
	for n := range 20 { // the hash of the id chooses the member that is asked first
		created, err := front.Create(t.Context(), task.Request{
			Principal: "alice", Method: mcp.MethodToolsCall, Name: "gift", Restartable: true,
			Work: func(context.Context, *task.Run) (codec.Encoder, error) { panic("runs at its creator") },
		})
		if err != nil {
			t.Fatal(err)
		}
		out, err := front.Result(t.Context(), "alice", created.TaskID, nil)
		if err != nil || out.Error != nil {
			t.Fatalf("task %d: %v, %v", n, out.Error, err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(refused) != 1 {
		t.Errorf("%d tasks refused", len(refused))
	}
}
