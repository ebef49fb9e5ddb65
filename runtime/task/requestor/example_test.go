package requestor_test

import (
	"context"
	"fmt"
	"log"

	"github.com/mcpwire/mcpwire/internal/sessiontest"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/task/requestor"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
)

type tools struct{ mcp.UnimplementedServerHandler }

// CallTool serves plain calls and tasks alike.
func (tools) CallTool(ctx context.Context, p *mcp.CallToolRequestParams) (mcp.CallToolOutcome, error) {
	peer, _ := session.PeerFrom(ctx)
	peer.Report(session.Progress{Value: 1, Message: "almost there"})
	return &mcp.CallToolResult{Content: []mcp.ContentBlock{&mcp.TextContent{Text: "rendered " + p.Name}}}, nil
}

// connect returns a client of a server that runs tools as tasks, and a function that closes both.
func connect(ctx context.Context) (client *session.Session, tasks *requestor.Tasks, end func()) {
	manager, err := task.New(ctx, task.Options{Store: memory.New()})
	if err != nil {
		log.Fatal(err)
	}
	near, far := inmemory.Pair(inmemory.Options{})

	serverConfig := &session.Options{Handler: sessiontest.ServerHandler(tools{}, nil)}
	receiver.Attach(serverConfig, receiver.Options{Manager: manager})
	server := session.Serve(far, &mcp.InitializeResult{Capabilities: mcp.ServerCapabilities{
		Tools: new(mcp.ServerCapabilitiesTools),
		Tasks: receiver.ServerCapabilities(true),
	}}, serverConfig)

	clientConfig := new(session.Options)
	tasks = requestor.Attach(clientConfig)
	client, err = session.Connect(ctx, near, new(mcp.InitializeRequestParams), clientConfig)
	if err != nil {
		log.Fatal(err)
	}
	return client, tasks, func() {
		client.Close()
		server.Close()
		manager.Close(ctx)
	}
}

// Call a tool as a task.
func Example() {
	ctx := context.Background()
	client, tasks, end := connect(ctx)
	defer end()
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

// After a reconnect, a client lists its tasks and attaches to each of them.
func ExampleList() {
	ctx := context.Background()
	client, tasks, end := connect(ctx)
	defer end()
	h, err := tasks.CallTool(ctx, client, &mcp.CallToolRequestParams{Name: "scene"})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := h.Result(ctx); err != nil {
		log.Fatal(err)
	}
	for t, err := range requestor.List(ctx, client) {
		if err != nil {
			log.Fatal(err)
		}
		attached := tasks.AttachTool(client, t.TaskID)
		result, err := attached.Result(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(t.Status, result.Content[0].(*mcp.TextContent).Text)
	}
	// Output:
	// completed rendered scene
}
