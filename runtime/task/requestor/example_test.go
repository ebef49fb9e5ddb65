package requestor_test

import (
	"context"
	"fmt"
	"log"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/task/requestor"
	pipe "github.com/mcpwire/mcpwire/runtime/transport/memory"
)

type tools struct{ mcp.UnimplementedServerHandler }

// CallTool serves plain calls and tasks alike.
func (tools) CallTool(ctx context.Context, p *mcp.CallToolRequestParams) (mcp.CallToolOutcome, error) {
	peer, _ := session.PeerFrom(ctx)
	peer.Report(session.Progress{Value: 1, Message: "almost there"})
	return &mcp.CallToolResult{Content: []mcp.ContentBlock{&mcp.TextContent{Text: "rendered " + p.Name}}}, nil
}

// A server that runs tools as tasks, and a client that calls one.
func Example() {
	ctx := context.Background()
	manager, err := task.New(ctx, task.Config{Store: memory.New()})
	if err != nil {
		log.Fatal(err)
	}
	defer manager.Close(ctx)
	near, far := pipe.Pair(pipe.Options{})

	serverConfig := &session.Config{Handler: session.ServerHandler(tools{}, nil)}
	receiver.Attach(serverConfig, receiver.Options{Manager: manager})
	server := session.Serve(far, &mcp.InitializeResult{Capabilities: mcp.ServerCapabilities{
		Tools: new(mcp.ServerCapabilitiesTools),
		Tasks: receiver.ServerCapabilities(false),
	}}, serverConfig)
	defer server.Close()

	clientConfig := new(session.Config)
	tasks := requestor.Attach(clientConfig)
	client, err := session.Connect(ctx, near, new(mcp.InitializeRequestParams), clientConfig)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	h, err := tasks.CallTool(ctx, client, &mcp.CallToolRequestParams{Name: "scene"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(h.State().Status)
	result, err := h.Result(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Content[0].(*mcp.TextContent).Text)
	// Output:
	// working
	// rendered scene
}
