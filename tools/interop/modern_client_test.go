package interop

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	official "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// The client finds the revision without sessions of the official Go SDK, and lists and calls its
// tools.
func TestClientSpeaksModernRevisionToGoSDK(t *testing.T) {
	s := official.NewServer(&official.Implementation{Name: "official", Version: "1"}, nil)
	s.AddTool(&official.Tool{Name: "rain", InputSchema: map[string]any{"type": "object"}}, func(context.Context, *official.CallToolRequest) (*official.CallToolResult, error) {
		return &official.CallToolResult{Content: []official.Content{&official.TextContent{Text: "rain"}}}, nil
	})
	web := httptest.NewServer(official.NewStreamableHTTPHandler(func(*http.Request) *official.Server { return s }, &official.StreamableHTTPOptions{Stateless: true}))
	defer web.Close()
	c, err := client.Dial(t.Context(), web.URL, &client.Options{Session: session.Config{Revisions: session.ModernRevisions()}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.Revision() != mcp.Revision20260728 || c.Server().ServerInfo.Name != "official" {
		t.Errorf("revision %s of server %+v", c.Revision(), c.Server().ServerInfo)
	}
	for tool, err := range c.Tools(t.Context()) {
		if err != nil || tool.Name != "rain" {
			t.Errorf("tool %+v, error %v", tool, err)
		}
	}
	result, err := c.CallTool(t.Context(), "rain", nil)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := client.Text(result); text != "rain" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}
