package main

import (
	"context"
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
	s := server.NewMCPServer("example", "1")
	tool := mcp.NewTool("add", mcp.WithDescription("Adds two numbers."), mcp.WithInputSchema[terms](), mcp.WithOutputSchema[sum]())
	s.AddTool(tool, mcp.NewStructuredToolHandler(add))
	s.AddResourceTemplate(mcp.NewResourceTemplate("greeting://{name}", "greeting", mcp.WithTemplateMIMEType("text/plain")), greet)
	s.AddPrompt(mcp.NewPrompt("review", mcp.WithArgument("code", mcp.RequiredArgument())), review)
	if err := server.ServeStdio(s); err != nil {
		log.Fatal(err)
	}
}
