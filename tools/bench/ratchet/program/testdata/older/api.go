package main

import (
	"context"
	"errors"
	"net/http"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	store "github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/memory"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// newServer returns a server with the tools of addTools, and a function that ends it and its tasks,
// whose number is not limited.
func newServer() (s *server.Server, end func() error, err error) {
	s, err = server.New(server.Config{Info: mcp.Implementation{Name: "bench", Version: "1"}})
	if err != nil {
		return nil, nil, err
	}
	limits := task.Limits{Tasks: -1, Bytes: -1, Rate: -1}
	tasks, err := task.New(context.Background(), task.Config{Store: store.New(), Resume: s.Resume, Limits: limits})
	if err != nil {
		return nil, nil, err
	}
	s.OfferTasks(tasks, true)
	tool := func(name string) mcp.Tool { return mcp.Tool{Name: name, Description: new("Greets a person by name.")} }
	end = func() error { return errors.Join(s.Close(), tasks.Close(context.Background())) }
	return s, end, addTools(adder{
		greet: func(name string, f func(context.Context, *server.Call, person) (string, error)) error {
			_, err := server.AddTool(s, tool(name), f)
			return err
		},
		table: func(name string, f func(context.Context, *server.Call, person) (table, error)) error {
			_, err := server.AddTool(s, tool(name), f)
			return err
		},
		durable: func(name string, f func(context.Context, *server.Call, person) (string, error)) error {
			_, err := server.AddTool(s, tool(name), f, server.Tasks(receiver.Support{Mode: mcp.ToolExecutionTaskSupportOptional, Restartable: true}))
			return err
		},
	})
}

// options returns the options of a client of a revision; "" stands for the default.
func options(revision mcp.Revision) *client.Options {
	o := &client.Options{QuestionsPerMinute: -1, Fill: func(context.Context, *client.FormRequest) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: mcp.ElicitResultActionDecline}, nil
	}}
	if revision != "" {
		o.Session.Revisions = []mcp.Revision{revision}
	}
	return o
}

// connect connects a client to a server in this process.
func connect(ctx context.Context, s *server.Server, revision mcp.Revision) (*client.Client, *session.Session, error) {
	here, there := memory.Pair(memory.Options{})
	served, err := s.Serve(there)
	if err != nil {
		return nil, nil, err
	}
	c, err := client.Connect(ctx, here, options(revision))
	return c, served, err
}

func serveStdio(ctx context.Context) error {
	s, _, err := newServer()
	if err != nil {
		return err
	}
	return s.Run(ctx, stdio.Server(stdio.Options{}))
}

// revisions are those to measure.
var revisions = []mcp.Revision{"2025-11-25"}

func newHandler(s *server.Server) (http.Handler, error) {
	return streamable.NewHandler(func(_ *http.Request, conn transport.Conn) { s.Serve(conn) }, streamable.HandlerOptions{}), nil
}
