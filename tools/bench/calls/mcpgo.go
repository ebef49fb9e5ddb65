package main

import (
	"context"
	"os"
	"sync"

	mcpgo "github.com/mark3labs/mcp-go/client"
	mcpgotransport "github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

func mcpgoServer() *server.MCPServer {
	s := server.NewMCPServer("server", "1")
	s.AddTool(mcp.NewTool(tool), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText(answer), nil
	})
	return s
}

func mcpgoServe(context.Context) error { return server.ServeStdio(mcpgoServer()) }

func mcpgoInMemory(ctx context.Context) (client, error) {
	c, err := mcpgo.NewInProcessClient(mcpgoServer())
	if err != nil {
		return client{}, err
	}
	if err := c.Start(ctx); err != nil {
		return client{}, err
	}
	return mcpgoClient(ctx, c)
}

func mcpgoOverStdio(options ...mcpgo.ClientOption) opener {
	return func(ctx context.Context) (client, error) {
		path, err := os.Executable()
		if err != nil {
			return client{}, err
		}
		c := mcpgo.NewClient(mcpgotransport.NewStdio(path, os.Environ(), serveFlag, "mcp-go"), options...)
		if err := c.Start(ctx); err != nil {
			return client{}, err
		}
		return mcpgoClient(ctx, c)
	}
}

func mcpgoClient(ctx context.Context, c *mcpgo.Client) (client, error) {
	var hello mcp.InitializeRequest
	hello.Params.ProtocolVersion = mcp.LATEST_PROTOCOL_VERSION
	hello.Params.ClientInfo = mcp.Implementation{Name: "client", Version: "1"}
	if _, err := c.Initialize(ctx, hello); err != nil {
		return client{}, err
	}
	return client{
		version: c.ProtocolVersion(),
		call: func(ctx context.Context) error {
			var req mcp.CallToolRequest
			req.Params.Name, req.Params.Arguments = tool, arguments()
			result, err := c.CallTool(ctx, req)
			if err != nil {
				return err
			}
			return check(result.Content[0].(mcp.TextContent).Text, nil)
		},
		close: sync.OnceValue(c.Close),
	}, nil
}
