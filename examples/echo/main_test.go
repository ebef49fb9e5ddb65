package main

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
)

// build builds this program.
func build(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "server")
	if text, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return binary
}

// Proves SDK-22.
func TestEcho(t *testing.T) {
	ctx := t.Context()
	c, err := client.Command(ctx, stdio.Command{Path: build(t)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	result, err := c.CallTool(ctx, "echo", message{"hello"})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"echo":"The tool says: hello"}`
	if text := result.Content[0].(*mcp.TextContent).Text; text != want || string(result.StructuredContent) != want {
		t.Errorf("tool: text %q, structured content %s", text, result.StructuredContent)
	}
	tool, err := c.Tool(ctx, "echo")
	if err != nil {
		t.Fatal(err)
	}
	if client.Title(tool) != "Echo" || tool.OutputSchema == nil || tool.OutputSchema.Properties == nil {
		t.Errorf("listed tool: %+v", tool)
	}
	contents, err := c.ReadResource(ctx, "echo://hello%20world")
	if err != nil {
		t.Fatal(err)
	}
	if got := contents.Contents[0].(*mcp.TextResourceContents).Text; got != "The resource says: hello world" {
		t.Errorf("resource contents: %q", got)
	}
	prompt, err := c.GetPrompt(ctx, "echo", map[string]string{"message": "hello"})
	if err != nil {
		t.Fatal(err)
	}
	if got := prompt.Messages[0].Content.(*mcp.TextContent).Text; got != "Think about this: hello" {
		t.Errorf("prompt: %q", got)
	}
}
