package gosdk_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpwire/mcpwire/runtime/embed/gosdk"
)

// TestEverythingExampleRunsTasks calls tools of the SDK's own example as tasks, after the changes
// of testdata/everything.patch.
func TestEverythingExampleRunsTasks(t *testing.T) {
	program := buildEverything(t)
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := exec.Command(program)
			cmd.Dir = t.TempDir() // of the store
			c, err := gosdk.Connect(ctx, newClient(), &mcp.CommandTransport{Command: cmd}, &mcp.ClientSessionOptions{ProtocolVersion: version})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if version == "2025-11-25" { // other calls are tasks only if they take a second
				greet, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "greet", Arguments: map[string]any{"name": "Ada"}})
				if err != nil {
					t.Fatal(err)
				}
				if r, err := greet.Result(ctx); err != nil || textOf(r) != "Hi Ada" {
					t.Errorf("greet: got %q, %v", textOf(r), err)
				}
			}
			// The handler asks the client, so the call becomes a task.
			roots, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "roots", Arguments: map[string]any{}})
			if err != nil {
				t.Fatal(err)
			}
			if r, err := roots.Result(ctx); err != nil || !strings.Contains(textOf(r), "file:///here") {
				t.Errorf("roots: got %q, %v", textOf(r), err)
			}
		})
	}
}

// buildEverything builds the example of the SDK with the patch.
func buildEverything(t *testing.T) (program string) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs the go command")
	}
	run := func(dir, name string, arguments ...string) string {
		t.Helper()
		cmd := exec.Command(name, arguments...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	dir := t.TempDir()
	example := filepath.Join(run("", "go", "list", "-m", "-f", "{{.Dir}}", "github.com/modelcontextprotocol/go-sdk"), "examples", "server", "everything")
	for _, name := range []string{"main.go", "mcp.png"} {
		text, err := os.ReadFile(filepath.Join(example, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	patch, err := filepath.Abs("testdata/everything.patch")
	if err != nil {
		t.Fatal(err)
	}
	run(dir, "git", "apply", patch)
	program = filepath.Join(dir, "everything")
	run("", "go", "build", "-o", program, filepath.Join(dir, "main.go"))
	return program
}
