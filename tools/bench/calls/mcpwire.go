package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/memory"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
)

type mcpwireTools struct{ mcp.UnimplementedServerHandler }

func (mcpwireTools) CallTool(context.Context, *mcp.CallToolRequestParams) (mcp.CallToolOutcome, error) {
	return &mcp.CallToolResult{Content: []mcp.ContentBlock{&mcp.TextContent{Text: answer}}}, nil
}

func mcpwireServer(conn transport.Conn) *session.Session {
	return session.Serve(conn, &mcp.InitializeResult{
		Capabilities: mcp.ServerCapabilities{Tools: &mcp.ServerCapabilitiesTools{}},
		ServerInfo:   mcp.Implementation{Name: "server", Version: "1"},
	}, &session.Config{Handler: session.ServerHandler(mcpwireTools{}, nil)})
}

func mcpwireServe(context.Context) error { return mcpwireServer(stdio.Server(stdio.Options{})).Wait() }

func mcpwireInMemory(ctx context.Context) (client, error) {
	a, b := memory.Pair(memory.Options{})
	s := mcpwireServer(b)
	return mcpwireClient(ctx, a, s.Wait)
}

func mcpwireOverStdio(ctx context.Context) (client, error) {
	path, err := os.Executable()
	if err != nil {
		return client{}, err
	}
	p, err := stdio.Start(stdio.Command{Path: path, Args: []string{serveFlag, "mcpwire"}, Stderr: os.Stderr})
	if err != nil {
		return client{}, err
	}
	return mcpwireClient(ctx, p, func() error { return nil })
}

// mcpwireClient opens a client; wait waits for the end of the server.
func mcpwireClient(ctx context.Context, conn transport.Conn, wait func() error) (client, error) {
	s, err := session.Connect(ctx, conn, &mcp.InitializeRequestParams{ClientInfo: mcp.Implementation{Name: "client", Version: "1"}}, nil)
	if err != nil {
		return client{}, err
	}
	given, err := json.Marshal(arguments())
	if err != nil {
		return client{}, err
	}
	return client{
		call: func(ctx context.Context) error {
			outcome, err := mcp.ToServer{Caller: s}.CallTool(ctx, &mcp.CallToolRequestParams{Name: tool, Arguments: given})
			if err != nil {
				return err
			}
			return check(outcome.(*mcp.CallToolResult).Content[0].(*mcp.TextContent).Text, nil)
		},
		close: func() error { return errors.Join(s.Close(), wait()) },
	}, nil
}
