package main

import (
	"context"
	"errors"
	"log"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
)

type terms struct {
	A float64 `json:"a" jsonschema:"the first term"`
	B float64 `json:"b" jsonschema:"the second term"`
}

type sum struct {
	Sum float64 `json:"sum"`
}

func add(ctx context.Context, c *server.Call, in terms) (sum, error) {
	return sum{in.A + in.B}, nil
}

func greet(ctx context.Context, c *server.Call, r server.Resource) ([]mcp.AnyResourceContents, error) {
	return server.TextContents("Hello, " + r.Vars.Get("name") + "!"), nil
}

func review(ctx context.Context, c *server.Call, arguments map[string]string) (*mcp.GetPromptResult, error) {
	return server.Messages(server.UserText("Please review: " + arguments["code"])), nil
}

func main() {
	s, err := server.New(server.Config{Info: mcp.Implementation{Name: "example", Version: "1"}})
	if err != nil {
		log.Fatal(err)
	}
	_, err1 := server.AddTool(s, mcp.Tool{Name: "add", Description: new("Adds two numbers.")}, add)
	_, err2 := s.AddTemplate(mcp.ResourceTemplate{Name: "greeting", URITemplate: "greeting://{name}", MIMEType: new("text/plain")}, greet)
	_, err3 := s.AddPrompt(mcp.Prompt{Name: "review", Arguments: []mcp.PromptArgument{{Name: "code", Required: new(true)}}}, review)
	if err := errors.Join(err1, err2, err3); err != nil {
		log.Fatal(err)
	}
	if err := s.Run(context.Background(), stdio.Server(stdio.Options{})); err != nil {
		log.Fatal(err)
	}
}
