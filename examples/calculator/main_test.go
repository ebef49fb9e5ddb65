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
func TestCalculator(t *testing.T) {
	ctx := t.Context()
	c, err := client.Command(ctx, stdio.Command{Path: build(t)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, tt := range []struct {
		name      string
		arguments any
		want      string // structured output, or else the text
	}{
		{"add", operands{1, 2}, `{"result":3}`},
		{"subtract", operands{1, 2}, `{"result":-1}`},
		{"multiply", operands{3, 2}, `{"result":6}`},
		{"divide", operands{6, 4}, `{"result":1.5}`},
		{"divide", operands{6, 0}, "b must not be 0"},
		{"add", map[string]any{"a": "one", "b": 2}, "The arguments do not comply with the input schema of this tool.\n/a: got string, want number"},
	} {
		result, err := c.CallTool(ctx, tt.name, tt.arguments)
		if err != nil {
			t.Fatal(err)
		}
		got := string(result.StructuredContent)
		if got == "" {
			got = result.Content[0].(*mcp.TextContent).Text
		}
		if got != tt.want {
			t.Errorf("%s of %v: got %s, want %s", tt.name, tt.arguments, got, tt.want)
		}
	}
}
