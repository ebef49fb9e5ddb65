// Command client is the client for the official conformance suite. It calls each tool of the server
// at a URL once, or those that the scenario names, gets every resource and prompt, returns the schema
// of a tool to a server that checks it, accepts every form, and authorizes itself in the scenarios of
// authorization. In those of the Skills extension, it loads the skill that they name.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/form"
	"github.com/mcpwire/mcpwire/runtime/session"
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
	var c *client.Client
	o := client.Options{
		Info: mcp.Implementation{Name: "mcpwire conformance client", Version: "1"},
		Input: client.Input{
			Fill: func(ctx context.Context, f *client.FormRequest) (*mcp.ElicitResult, error) {
				return fill(ctx, c, f)
			},
			Sample: func(context.Context, *client.SampleRequest) (*mcp.CreateMessageResult, error) {
				return client.Say("none", "text"), nil
			},
			Roots: new(client.Roots),
		},
		Session: session.Options{Revisions: append(session.ModernRevisions(), session.Revisions()...)},
	}
	if scenario := os.Getenv("MCP_CONFORMANCE_SCENARIO"); strings.HasPrefix(scenario, "auth/") {
		var err error
		if o.Auth, err = newAuthorizer(scenario); err != nil {
			return err
		}
	}
	c, err := client.Dial(ctx, url, &o)
	if err != nil {
		return err
	}
	defer c.Close()
	if scenario := os.Getenv("MCP_CONFORMANCE_SCENARIO"); strings.HasPrefix(scenario, "sep-2640-") {
		if err := useSkills(ctx, c, scenario); err != nil {
			return err
		}
		return c.Shutdown(ctx)
	}
	declared := c.Server().Capabilities
	if declared.Tools != nil {
		if err := callTools(ctx, c); err != nil {
			return err
		}
	}
	if declared.Resources != nil {
		for resource, err := range c.Resources(ctx) {
			if err != nil {
				return err
			}
			if _, err := c.ReadResource(ctx, resource.URI); err != nil {
				return fmt.Errorf("%s: %w", resource.URI, err)
			}
		}
	}
	if declared.Prompts != nil {
		for prompt, err := range c.Prompts(ctx) {
			if err != nil {
				return err
			}
			if _, err := c.GetPrompt(ctx, prompt.Name, nil); err != nil {
				return fmt.Errorf("%s: %w", prompt.Name, err)
			}
		}
	}
	return c.Shutdown(ctx)
}

// callTools calls the tools that the scenario names or, if it names none, each tool.
func callTools(ctx context.Context, c *client.Client) error {
	var scenario struct {
		ToolCalls []struct {
			Name      string
			Arguments json.RawMessage
		}
	}
	if text := os.Getenv("MCP_CONFORMANCE_CONTEXT"); text != "" {
		if err := json.Unmarshal([]byte(text), &scenario); err != nil {
			return err
		}
	}
	for tool, err := range c.Tools(ctx) {
		if err != nil {
			return err
		}
		if len(scenario.ToolCalls) > 0 {
			continue
		}
		args, err := arguments(ctx, c, tool)
		if err != nil {
			return err
		}
		if _, err := c.CallTool(ctx, tool.Name, args); err != nil && jsonrpc.CodeOf(err) != jsonrpc.CodeMethodNotFound { // some only list tools
			return fmt.Errorf("%s: %w", tool.Name, err)
		}
	}
	for _, call := range scenario.ToolCalls {
		if _, err := c.CallTool(ctx, call.Name, call.Arguments); err != nil {
			return fmt.Errorf("%s: %w", call.Name, err)
		}
	}
	return nil
}

// unrelatedTool is called while another call waits for input.
const unrelatedTool = "test_mrtr_unrelated"

// fill accepts a form with its defaults, and with yes for other boolean fields.
func fill(ctx context.Context, c *client.Client, f *client.FormRequest) (*mcp.ElicitResult, error) {
	if c != nil && c.Session().Traits().InputInResults {
		if _, err := c.Tool(ctx, unrelatedTool); err == nil {
			if _, err := c.CallTool(ctx, unrelatedTool, nil); err != nil {
				return nil, err
			}
		}
	}
	content := map[string]form.Value{}
	for _, field := range f.Fields {
		if field.Required && field.Default == nil {
			value, err := field.Parse("true")
			if err != nil {
				return nil, err
			}
			content[field.Name] = value
		}
	}
	return client.Accept(content)
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
