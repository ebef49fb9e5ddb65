package main

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/internal/must"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
)

// The program runs between a client and the example echo, as a child process and at a URL.
func TestProxyBeforeProcessAndURL(t *testing.T) {
	dir := t.TempDir()
	if text, err := exec.Command("go", "build", "-o", dir, ".", "../echo").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	handler := must.Get(echoServer().Handler(nil))
	web := httptest.NewServer(handler)
	defer web.Close()
	defer handler.Close()
	text, err := json.Marshal(map[string]any{"mcpServers": map[string]any{
		"local": map[string]any{"command": filepath.Join(dir, "echo")},
		"web":   map[string]any{"url": web.URL},
	}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "servers.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, revisions := range [][]mcp.Revision{session.Revisions(), session.ModernRevisions()} {
		t.Run(string(revisions[0]), func(t *testing.T) {
			c, err := client.Command(t.Context(), stdio.Command{Path: filepath.Join(dir, "proxy"), Args: []string{file}, Stderr: os.Stderr},
				&client.Options{Session: session.Options{Revisions: revisions}})
			if err != nil {
				t.Fatal(err)
			}
			callBoth(t, c)
		})
	}
}

// callBoth calls the tools of both servers behind the proxy, and closes the client.
func callBoth(t *testing.T, c *client.Client) {
	t.Helper()
	var names []string
	for tool, err := range c.Tools(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
	}
	if diff := cmp.Diff([]string{"local_echo", "web_hello"}, names); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	for name, want := range map[string]string{"local_echo": `{"echo":"The tool says: hello"}`, "web_hello": "hello"} {
		result, err := c.CallTool(t.Context(), name, map[string]any{"message": "hello"})
		if err != nil {
			t.Fatal(err)
		}
		if got := result.Content[0].(*mcp.TextContent).Text; got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if err := c.Close(); err != nil {
		t.Errorf("closing: %v", err)
	}
}

func echoServer() *server.Server {
	s := server.New("web", "1", nil)
	server.AddTool(s, "hello", "", func(context.Context, *server.Call, map[string]any) (string, error) { return "hello", nil })
	return s
}

func TestReadRejectsEntryWithoutCommandAndURL(t *testing.T) {
	file := filepath.Join(t.TempDir(), "servers.json")
	if err := os.WriteFile(file, []byte(`{"mcpServers":{"x":{}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := read(file); err == nil || !strings.HasSuffix(err.Error(), `server "x": want either a command or a url`) {
		t.Errorf("got %v", err)
	}
}
