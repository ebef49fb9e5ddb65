//lint:file-ignore SA1019 sampling and roots are deprecated, and tested as long as the SDK has them

package gosdk_test

import (
	"context"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	wire "github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/embed/gosdk"
	"github.com/mcpwire/mcpwire/runtime/embed/internal/joined/joinedtest"
	"github.com/mcpwire/mcpwire/runtime/task/requestor"
)

// testClient is a client for the tests of package joinedtest.
type testClient struct{ *gosdk.Client }

func (c testClient) Call(ctx context.Context, tool string, meta map[string]any, o ...requestor.Option) (joinedtest.Handle, error) {
	h, err := c.CallTool(ctx, &mcp.CallToolParams{Meta: meta, Name: tool, Arguments: map[string]any{}}, o...)
	return testHandle{h}, err
}

func (c testClient) Invoke(ctx context.Context, tool string) (string, error) {
	r, err := c.Client.Invoke(ctx, &mcp.CallToolParams{Name: tool})
	return textOf(r), err
}

func (c testClient) Plain(ctx context.Context, tool string) (string, error) {
	r, err := c.Session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: map[string]any{}})
	return textOf(r), err
}

func (c testClient) Attach(id string, o ...requestor.Option) joinedtest.Handle {
	return testHandle{c.AttachTool(id, o...)}
}

type testHandle struct{ *gosdk.Handle }

func (h testHandle) Text(ctx context.Context) (string, bool, error) {
	r, err := h.Result(ctx)
	return textOf(r), r != nil && r.IsError, err
}

func textOf(r *mcp.CallToolResult) string {
	if r == nil || len(r.Content) == 0 {
		return ""
	}
	return r.Content[0].(*mcp.TextContent).Text
}

// newClient returns a client with the handlers that package joinedtest expects.
func newClient() *mcp.Client { return newClientWith(nil) }

func newClientWith(capabilities *mcp.ClientCapabilities) *mcp.Client {
	c := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, &mcp.ClientOptions{
		Capabilities: capabilities,
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"colour": "blue"}}, nil
		},
		CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			return &mcp.CreateMessageResult{Content: &mcp.TextContent{Text: "forty-two"}, Model: "m", Role: "assistant"}, nil
		},
	})
	c.AddRoots(&mcp.Root{URI: "file:///here"})
	return c
}

func TestClient(t *testing.T) {
	joinedtest.Run(t, func(t *testing.T, e joinedtest.Endpoint, revision wire.Revision) joinedtest.Client {
		var transport mcp.Transport = &mcp.IOTransport{Reader: e.Reader, Writer: e.Writer}
		if e.URL != "" {
			transport = &mcp.StreamableClientTransport{Endpoint: e.URL}
		}
		c, err := gosdk.Connect(t.Context(), newClient(), transport, &mcp.ClientSessionOptions{ProtocolVersion: string(revision)})
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Session.InitializeResult().ProtocolVersion; got != string(revision) {
			t.Fatalf("the revision is %s", got)
		}
		return testClient{c}
	})
}
