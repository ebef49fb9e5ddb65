package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

type terms struct {
	A float64 `json:"a" jsonschema:"the first term"`
	B float64 `json:"b" jsonschema:"the second term"`
}

type sum struct {
	Sum float64 `json:"sum"`
}

func add(ctx context.Context, req mcp.CallToolRequest, in terms) (sum, error) {
	return sum{in.A + in.B}, nil
}

type order struct {
	Dish string `json:"dish" jsonschema:"what to cook"`
}

func cook(ctx context.Context, req mcp.CallToolRequest, in order) (*mcp.CallToolResult, error) {
	s := server.ServerFromContext(ctx)
	progress := func(value float64, message string) error {
		if req.Params.Meta == nil || req.Params.Meta.ProgressToken == nil {
			return nil
		}
		return s.SendNotificationToClient(ctx, "notifications/progress", map[string]any{
			"progressToken": req.Params.Meta.ProgressToken, "progress": value, "total": 2, "message": message,
		})
	}
	if err := progress(1, "asking"); err != nil {
		return nil, err
	}
	answer, err := s.RequestElicitation(ctx, mcp.ElicitationRequest{Params: mcp.ElicitationParams{
		Message: "For how many?",
		RequestedSchema: map[string]any{
			"type": "object", "properties": map[string]any{"people": map[string]any{"type": "integer"}}, "required": []string{"people"},
		},
	}})
	if err != nil {
		return nil, err
	}
	if answer.Action != mcp.ElicitationResponseActionAccept {
		return mcp.NewToolResultText("Nothing was cooked."), nil
	}
	content, _ := answer.Content.(map[string]any)
	return mcp.NewToolResultText(fmt.Sprintf("%s for %v", in.Dish, content["people"])), progress(2, "done")
}

func greet(ctx context.Context, req mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
	name := strings.TrimPrefix(req.Params.URI, "greeting://")
	return []mcp.ResourceContents{
		mcp.TextResourceContents{URI: req.Params.URI, MIMEType: "text/plain", Text: "Hello, " + name + "!"},
	}, nil
}

func review(ctx context.Context, req mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	return mcp.NewGetPromptResult("", []mcp.PromptMessage{
		mcp.NewPromptMessage(mcp.RoleUser, mcp.NewTextContent("Please review: "+req.Params.Arguments["code"])),
	}), nil
}

func main() {
	addr := flag.String("http", "", "where to serve HTTP; standard input and output without it")
	flag.Parse()
	s := server.NewMCPServer("example", "1", server.WithElicitation())
	tool := mcp.NewTool("add", mcp.WithDescription("Adds two numbers."), mcp.WithInputSchema[terms](), mcp.WithOutputSchema[sum]())
	s.AddTool(tool, mcp.NewStructuredToolHandler(add))
	tool = mcp.NewTool("cook", mcp.WithDescription("Cooks a dish, and asks for how many."), mcp.WithInputSchema[order]())
	s.AddTool(tool, mcp.NewTypedToolHandler(cook))
	s.AddResourceTemplate(mcp.NewResourceTemplate("greeting://{name}", "greeting", mcp.WithTemplateMIMEType("text/plain")), greet)
	s.AddPrompt(mcp.NewPrompt("review", mcp.WithArgument("code", mcp.RequiredArgument())), review)
	if *addr != "" {
		log.Fatal(server.NewStreamableHTTPServer(s).Start(*addr))
	}
	if err := server.ServeStdio(s); err != nil {
		log.Fatal(err)
	}
}
