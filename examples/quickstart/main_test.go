package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
)

// Proves SDK-22.
func TestQuickStart(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no signals")
	}
	ctx := t.Context()
	binary := filepath.Join(t.TempDir(), "server")
	if text, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	cmd := exec.CommandContext(ctx, binary)
	cmd.Env = append(os.Environ(), "PORT=0")
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	_, url, _ := strings.Cut(strings.TrimSpace(line), "url=")
	c, err := client.Dial(ctx, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	result, err := c.CallTool(ctx, "add", operands{1, 2})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"result":3}`
	if text := result.Content[0].(*mcp.TextContent).Text; text != want || string(result.StructuredContent) != want {
		t.Errorf("1 + 2: text %q, structured content %s", text, result.StructuredContent)
	}
	contents, err := c.ReadResource(ctx, "greeting://Ada")
	if err != nil {
		t.Fatal(err)
	}
	if got := contents.Contents[0].(*mcp.TextResourceContents).Text; got != "Hello, Ada!" {
		t.Errorf("resource contents: %q", got)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Errorf("the server failed: %v", err)
	}
}
