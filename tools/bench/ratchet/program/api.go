package main

import (
	"context"
	"net/http"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
)

// newServer returns a server with the tools of addTools, and a function that ends it and its tasks,
// whose number is not limited.
func newServer() (s *server.Server, end func() error, err error) {
	limits := task.Limits{Tasks: task.NoLimit, Bytes: task.NoLimit, Rate: task.NoLimit, Journal: task.NoLimit}
	s = server.New("bench", "1", &server.Options{Tasks: task.Options{Store: memory.New(), Limits: limits}})
	err = addTools(adder{
		greet: func(name string, f func(context.Context, *server.Call, person) (string, error)) error {
			return server.AddTool(s, name, "Greets a person by name.", f).Err()
		},
		table: func(name string, f func(context.Context, *server.Call, person) (table, error)) error {
			return server.AddTool(s, name, "Returns a table.", f).Err()
		},
		durable: func(name string, f func(context.Context, *server.Call, person) (string, error)) error {
			return server.AddTool(s, name, "Greets a person by name.", f, server.Durable()).Err()
		},
	})
	return s, s.Close, err
}

// options returns the options of a client of a revision; "" stands for the default.
func options(revision mcp.Revision) *client.Options {
	o := &client.Options{Limits: client.Limits{InputRequests: -1}, Input: client.Input{Fill: func(context.Context, *client.FormRequest) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: mcp.ElicitActionDecline}, nil
	}}}
	if revision != "" {
		o.Session.Revisions = []mcp.Revision{revision}
	}
	return o
}

// connect connects a client to a server in this process.
func connect(ctx context.Context, s *server.Server, revision mcp.Revision) (*client.Client, *session.Session, error) {
	here, there := inmemory.Pair(inmemory.Options{})
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
	return s.ServeStdio(ctx)
}

// revisions are those to measure.
var revisions = []mcp.Revision{"2025-11-25", "2026-07-28"}

func newHandler(s *server.Server) (http.Handler, error) { return s.Handler(nil) }
