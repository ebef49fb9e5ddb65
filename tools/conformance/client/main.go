// Command client is the client for the official conformance suite. It calls each tool of the server
// at a URL once, returns the schema of a tool to a server that checks it, and accepts every form
// with its defaults.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: client URL")
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := run(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, url string) error {
	c, err := client.Dial(ctx, url, &client.Options{
		Info: mcp.Implementation{Name: "mcpwire conformance client", Version: "1"},
		Fill: func(context.Context, *client.FormRequest) (*mcp.ElicitResult, error) { return client.Accept(nil), nil },
	})
	if err != nil {
		return err
	}
	defer c.Close()
	if c.Server().Capabilities.Tools == nil {
		return nil
	}
	for tool, err := range c.Tools(ctx) {
		if err != nil {
			return err
		}
		args, err := arguments(ctx, c, tool)
		if err != nil {
			return err
		}
		if _, err := c.CallTool(ctx, tool.Name, args); err != nil {
			return fmt.Errorf("%s: %w", tool.Name, err)
		}
	}
	return c.Shutdown(ctx)
}

// The scenario json-schema-2020-12-preservation has a tool with a schema of many keywords, and one
// that takes the schema as received by the client.
const (
	schemaTool = "json_schema_2020_12_tool"
	echoTool   = "json_schema_echo"
)

// arguments returns arguments for a call of a tool.
func arguments(ctx context.Context, c *client.Client, tool *mcp.Tool) (map[string]any, error) {
	if tool.Name != echoTool {
		return required(tool)
	}
	described, err := c.Tool(ctx, schemaTool)
	if err != nil {
		return nil, err
	}
	return map[string]any{"schema": described.InputSchema}, nil
}

// required returns invented values for the required arguments of a tool.
func required(tool *mcp.Tool) (map[string]any, error) {
	var properties map[string]struct{ Type string }
	if len(tool.InputSchema.Properties) > 0 {
		if err := json.Unmarshal(tool.InputSchema.Properties, &properties); err != nil {
			return nil, fmt.Errorf("schema of tool %s: %w", tool.Name, err)
		}
	}
	args := map[string]any{}
	for i, name := range tool.InputSchema.Required {
		switch properties[name].Type {
		case "integer", "number":
			args[name] = i + 1
		case "boolean":
			args[name] = true
		default:
			args[name] = "text"
		}
	}
	return args, nil
}
