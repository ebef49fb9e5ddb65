// Command jobserver is a server on standard input and output with one tool that takes its time. Called
// as a task the tool is not lost when the server ends or is killed: the next one runs it again.
//
//	go run ./examples/jobclient
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/bolt"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
)

func main() {
	file := flag.String("store", "jobs.db", "where tasks are kept")
	flag.Parse()
	if err := run(*file); err != nil {
		log.Fatal(err)
	}
}

func run(file string) error {
	store, err := bolt.Open(file)
	if err != nil {
		return err
	}
	defer store.Close()
	handler := session.ServerHandler(server{}, nil)
	manager, err := task.New(context.Background(), task.Config{
		Store:  store,
		Resume: func(r task.Record) task.Work { return receiver.Work(handler, r) },
	})
	if err != nil {
		return err
	}
	defer manager.Close(context.Background())

	cfg := &session.Config{Handler: handler}
	receiver.Attach(cfg, receiver.Options{Manager: manager, Support: func(context.Context, *session.Request) receiver.Support {
		return receiver.Support{Mode: mcp.ToolExecutionTaskSupportOptional, Restartable: true}
	}})
	return session.Serve(stdio.Server(stdio.Options{}), &mcp.InitializeResult{
		ServerInfo:   mcp.Implementation{Name: "jobserver", Version: "1"},
		Capabilities: mcp.ServerCapabilities{Tools: new(mcp.ServerCapabilitiesTools), Tasks: receiver.ServerCapabilities(true)},
	}, cfg).Wait()
}

type server struct{ mcp.UnimplementedServerHandler }

func (server) ListTools(context.Context, *mcp.PaginatedRequestParams) (*mcp.ListToolsResult, error) {
	return &mcp.ListToolsResult{Tools: []mcp.Tool{{
		Name:        "render",
		Description: new("Renders a number of frames, a tenth of a second each."),
		InputSchema: mcp.ToolInputSchema{Properties: json.RawMessage(`{"frames":{"type":"integer"}}`)},
		Execution:   &mcp.ToolExecution{TaskSupport: new(mcp.ToolExecutionTaskSupportOptional)},
	}}}, nil
}

// CallTool renders. It is the same for a plain call and for a task.
func (server) CallTool(ctx context.Context, p *mcp.CallToolRequestParams) (mcp.CallToolOutcome, error) {
	var args struct{ Frames int }
	if err := json.Unmarshal(p.Arguments, &args); err != nil {
		return nil, jsonrpc.InvalidParams(err)
	}
	peer, _ := session.PeerFrom(ctx)
	for i := range args.Frames {
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		peer.Report(session.Progress{Value: float64(i + 1), Total: new(float64(args.Frames)), Message: fmt.Sprintf("frame %d", i+1)})
	}
	return &mcp.CallToolResult{Content: []mcp.ContentBlock{&mcp.TextContent{Text: fmt.Sprintf("%d frames are ready", args.Frames)}}}, nil
}
