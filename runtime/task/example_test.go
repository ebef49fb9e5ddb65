package task_test

import (
	"context"
	"fmt"
	"log"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
)

// The runtime by itself, without sessions: as another SDK would embed it.
func Example() {
	ctx := context.Background()
	store := memory.New()
	defer store.Close()
	manager, err := task.New(ctx, task.Config{Store: store})
	if err != nil {
		log.Fatal(err)
	}
	defer manager.Close(ctx)

	created, err := manager.Create(ctx, task.Request{
		Principal: "alice",
		Method:    "tools/call",
		Work: func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			return &mcp.CallToolResult{Content: []mcp.ContentBlock{&mcp.TextContent{Text: "done"}}}, nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("created:", created.Status)

	outcome, err := manager.Result(ctx, "alice", created.TaskID, nil)
	if err != nil {
		log.Fatal(err)
	}
	var result mcp.CallToolResult
	if err := codec.Unmarshal(outcome.Result, &result); err != nil {
		log.Fatal(err)
	}
	fmt.Println("result:", result.Content[0].(*mcp.TextContent).Text)

	_, err = manager.Get(ctx, "bob", created.TaskID, nil)
	fmt.Println("bob:", task.WireError(err).Message)
	// Output:
	// created: working
	// result: done
	// bob: task: not found
}
