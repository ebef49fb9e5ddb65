package mcpgo_test

import (
	"context"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	wire "github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/embed/internal/joined/joinedtest"
	"github.com/mcpwire/mcpwire/runtime/embed/mcpgo"
	"github.com/mcpwire/mcpwire/runtime/task/requestor"
)

// testClient is a client for the tests of package joinedtest.
type testClient struct{ *mcpgo.Client }

func callOf(tool string, meta map[string]any) mcp.CallToolRequest {
	r := mcp.CallToolRequest{Params: mcp.CallToolParams{Name: tool, Arguments: map[string]any{}}}
	if meta != nil {
		r.Params.Meta = mcp.NewMetaFromMap(meta)
	}
	return r
}

func (c testClient) Call(ctx context.Context, tool string, meta map[string]any, o ...requestor.Option) (joinedtest.Handle, error) {
	h, err := c.CallTool(ctx, callOf(tool, meta), o...)
	return testHandle{h}, err
}

func (c testClient) Invoke(ctx context.Context, tool string) (string, error) {
	r, err := c.Client.Invoke(ctx, callOf(tool, nil))
	return textOf(r), err
}

func (c testClient) Plain(ctx context.Context, tool string) (string, error) {
	r, err := c.Client.Client.CallTool(ctx, callOf(tool, nil))
	return textOf(r), err
}

func (c testClient) Attach(id string, o ...requestor.Option) joinedtest.Handle {
	return testHandle{must(c.AttachTool(id, o...))}
}

type testHandle struct{ *mcpgo.Handle }

func (h testHandle) Text(ctx context.Context) (string, bool, error) {
	r, err := h.Result(ctx)
	return textOf(r), r != nil && r.IsError, err
}

func textOf(r *mcp.CallToolResult) string {
	if r == nil || len(r.Content) == 0 {
		return ""
	}
	return r.Content[0].(mcp.TextContent).Text
}

// answers has the handlers that package joinedtest expects.
type answers struct{}

func (answers) Elicit(context.Context, mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	return &mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{
		Action: mcp.ElicitationResponseActionAccept, Content: map[string]any{"colour": "blue"},
	}}, nil
}

func (answers) CreateMessage(context.Context, mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
	return &mcp.CreateMessageResult{SamplingMessage: mcp.SamplingMessage{Role: mcp.RoleAssistant, Content: mcp.NewTextContent("forty-two")}, Model: "m"}, nil
}

func (answers) ListRoots(context.Context, mcp.ListRootsRequest) (*mcp.ListRootsResult, error) {
	return &mcp.ListRootsResult{Roots: []mcp.Root{{URI: "file:///here"}}}, nil
}

// connect returns an initialized client with the handlers that package joinedtest expects.
func connect(t *testing.T, over transport.Interface, version string, capabilities mcp.ClientCapabilities) *mcpgo.Client {
	t.Helper()
	c := mcpgo.NewClient(over, client.WithElicitationHandler(answers{}), client.WithSamplingHandler(answers{}), client.WithRootsHandler(answers{}))
	t.Cleanup(func() { c.Close() })
	if err := c.Client.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	var r mcp.InitializeRequest
	r.Params.ProtocolVersion = version
	r.Params.ClientInfo = mcp.Implementation{Name: "c", Version: "1"}
	r.Params.Capabilities = capabilities
	if _, err := c.Client.Initialize(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if got := c.Client.ProtocolVersion(); got != version {
		t.Fatalf("the revision is %s", got)
	}
	return c
}

func TestClient(t *testing.T) {
	joinedtest.Run(t, func(t *testing.T, e joinedtest.Endpoint, revision wire.Revision) joinedtest.Client {
		if e.URL == "" {
			return testClient{connect(t, transport.NewIO(e.Reader, e.Writer, nil), string(revision), mcp.ClientCapabilities{})}
		}
		over, err := transport.NewStreamableHTTP(e.URL)
		if err != nil {
			t.Fatal(err)
		}
		return testClient{connect(t, over, string(revision), mcp.ClientCapabilities{})}
	})
}
