// Package servers holds the same server three times, by mcpwire and by two other Go SDKs. docs/from-other-sdks.md
// shows them side by side.
package servers

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
)

// The three do the same, and the document shows them as they are.
func TestServersAreTheSame(t *testing.T) {
	guide, err := os.ReadFile("../../../docs/from-other-sdks.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"mcpwire", "official", "mcpgo"} {
		t.Run(name, func(t *testing.T) {
			code, err := os.ReadFile(filepath.Join(name, "main.go"))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(guide), "```go\n"+string(code)+"```\n") {
				t.Error("the document does not show this program")
			}
			use(t, name)
		})
	}
}

func use(t *testing.T, name string) {
	t.Helper()
	ctx := t.Context()
	binary := filepath.Join(t.TempDir(), name)
	if text, err := exec.Command("go", "build", "-o", binary, "./"+name).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	c, err := client.Command(ctx, stdio.Command{Path: binary}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	result, err := c.CallTool(ctx, "add", map[string]any{"a": 1, "b": 2})
	if err != nil || string(result.StructuredContent) != `{"sum":3}` {
		t.Errorf("add: %+v, %v", result, err)
	}
	contents, err := c.ReadResource(ctx, "greeting://Ada")
	if err != nil {
		t.Fatal(err)
	}
	text := contents.Contents[0].(*mcp.TextResourceContents)
	if text.Text != "Hello, Ada!" || text.URI != "greeting://Ada" || text.MIMEType == nil || *text.MIMEType != "text/plain" {
		t.Errorf("greeting: %+v", text)
	}
	prompt, err := c.GetPrompt(ctx, "review", map[string]string{"code": "x++"})
	if err != nil {
		t.Fatal(err)
	}
	if got := prompt.Messages[0].Content.(*mcp.TextContent).Text; got != "Please review: x++" {
		t.Errorf("review: %q", got)
	}
}
