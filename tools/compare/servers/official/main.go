package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net/http"
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

type order struct {
	Dish string `json:"dish" jsonschema:"what to cook"`
}

func cook(ctx context.Context, req *mcp.CallToolRequest, in order) (*mcp.CallToolResult, any, error) {
	text := func(s string) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
	}
	progress := func(value float64, message string) error {
		token := req.Params.GetProgressToken()
		if token == nil {
			return nil
		}
		return req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: value, Total: 2, Message: message})
	}
	if err := progress(1, "asking"); err != nil {
		return nil, nil, err
	}
	answer, err := req.Session.Elicit(ctx, &mcp.ElicitParams{
		Message:         "For how many?",
		RequestedSchema: json.RawMessage(`{"type":"object","properties":{"people":{"type":"integer"}},"required":["people"]}`),
	})
	if err != nil {
		return nil, nil, err
	}
	if answer.Action != "accept" {
		return text("Nothing was cooked."), nil, nil
	}
	return text(fmt.Sprintf("%s for %v", in.Dish, answer.Content["people"])), nil, progress(2, "done")
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
	addr := flag.String("http", "", "where to serve HTTP; standard input and output without it")
	flag.Parse()
	s := mcp.NewServer(&mcp.Implementation{Name: "example", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "add", Description: "Adds two numbers."}, add)
	mcp.AddTool(s, &mcp.Tool{Name: "cook", Description: "Cooks a dish, and asks for how many."}, cook)
	s.AddResourceTemplate(&mcp.ResourceTemplate{Name: "greeting", URITemplate: "greeting://{name}", MIMEType: "text/plain"}, greet)
	s.AddPrompt(&mcp.Prompt{Name: "review", Arguments: []*mcp.PromptArgument{{Name: "code", Required: true}}}, review)
	if *addr != "" {
		handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil)
		log.Fatal(http.ListenAndServe(*addr, handler))
	}
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		log.Fatal(err)
	}
}
