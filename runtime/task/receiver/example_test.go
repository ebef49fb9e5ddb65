package receiver_test

import (
	"context"
	"fmt"
	"log"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
)

// A session.Options whose handler serves plain calls and tasks. After a restart, the same handler
// serves unfinished tasks again.
func ExampleAttach() {
	ctx := context.Background()
	handler := func(context.Context, *session.Request) (codec.Encoder, error) {
		return session.Raw(`{"content":[]}`), nil
	}
	manager, err := task.New(ctx, task.Options{
		Store:    memory.New(),
		Recovery: task.Recovery{Recover: func(r task.Record) task.Work { return receiver.Work(handler, r) }},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer manager.Close(ctx)
	cfg := &session.Options{Handler: handler}
	receiver.Attach(cfg, receiver.Options{Manager: manager})
	near, far := inmemory.Pair(inmemory.Options{})
	server := session.Serve(far, &mcp.InitializeResult{Capabilities: mcp.ServerCapabilities{
		Tools: new(mcp.ServerCapabilitiesTools), Tasks: receiver.ServerCapabilities(false),
	}}, cfg)
	defer server.Close()

	client, err := session.Connect(ctx, near, nil, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	outcome, err := mcp.ToServer{Caller: client}.CallTool(ctx, &mcp.CallToolRequestParams{Name: "x", Task: &mcp.TaskMetadata{TTL: new(int64(60_000))}})
	if err != nil {
		log.Fatal(err)
	}
	created := outcome.(*mcp.CreateTaskResult).Task
	fmt.Println(created.Status, *created.TTL)
	// Output:
	// working 60000
}
