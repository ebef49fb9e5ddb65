package main

import (
	"context"
	"os"
	"os/exec"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func officialServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "server", Version: "1"}, nil)
	s.AddTool(&mcp.Tool{Name: tool, InputSchema: map[string]any{"type": "object"}}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: answer}}}, nil
	})
	return s
}

func officialServe(ctx context.Context) error {
	return officialServer().Run(ctx, &mcp.StdioTransport{})
}

func officialInMemory(ctx context.Context) (client, error) {
	a, b := mcp.NewInMemoryTransports()
	if _, err := officialServer().Connect(ctx, b, nil); err != nil {
		return client{}, err
	}
	return officialClient(ctx, a, tool)
}

func officialOverStdio(ctx context.Context) (client, error) {
	path, err := os.Executable()
	if err != nil {
		return client{}, err
	}
	cmd := exec.Command(path, serveFlag, "official Go SDK")
	cmd.Stderr = os.Stderr
	return officialClient(ctx, &mcp.CommandTransport{Command: cmd}, tool)
}

// officialClient connects a client that calls the tool with a name.
func officialClient(ctx context.Context, t mcp.Transport, name string) (client, error) {
	s, err := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, nil).Connect(ctx, t, nil)
	if err != nil {
		return client{}, err
	}
	return client{
		version: s.InitializeResult().ProtocolVersion,
		call: func(ctx context.Context) error {
			result, err := s.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: arguments()})
			if err != nil {
				return err
			}
			return check(result.Content[0].(*mcp.TextContent).Text, nil)
		},
		close: sync.OnceValue(s.Close),
	}, nil
}
