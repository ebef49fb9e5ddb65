package main

import (
	"context"
	"log"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type terms struct {
	A float64 `json:"a" jsonschema:"the first term"`
	B float64 `json:"b" jsonschema:"the second term"`
}

type sum struct {
	Sum float64 `json:"sum"`
}

func add(ctx context.Context, req *mcp.CallToolRequest, in terms) (*mcp.CallToolResult, sum, error) {
	return nil, sum{in.A + in.B}, nil
}

func greet(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	name := strings.TrimPrefix(req.Params.URI, "greeting://")
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{
		{URI: req.Params.URI, MIMEType: "text/plain", Text: "Hello, " + name + "!"},
	}}, nil
}

func review(ctx context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{
		{Role: "user", Content: &mcp.TextContent{Text: "Please review: " + req.Params.Arguments["code"]}},
	}}, nil
}

func main() {
	s := mcp.NewServer(&mcp.Implementation{Name: "example", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "add", Description: "Adds two numbers."}, add)
	s.AddResourceTemplate(&mcp.ResourceTemplate{Name: "greeting", URITemplate: "greeting://{name}", MIMEType: "text/plain"}, greet)
	s.AddPrompt(&mcp.Prompt{Name: "review", Arguments: []*mcp.PromptArgument{{Name: "code", Required: true}}}, review)
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		log.Fatal(err)
	}
}
