package mcpgo_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcpwire/mcpwire/runtime/embed/mcpgo"
)

// scripted is a transport that responds to each method with a result. Its calls of the tool "wait"
// block until their context ends.
type scripted struct {
	results map[string]string
	handler transport.RequestHandler // of the client

	mu    sync.Mutex
	calls []sentCall // of tools
}

type sentCall struct {
	ctx     context.Context
	request transport.JSONRPCRequest
}

func (*scripted) Start(context.Context) error                                     { return nil }
func (*scripted) SendNotification(context.Context, mcp.JSONRPCNotification) error { return nil }
func (*scripted) SetNotificationHandler(func(mcp.JSONRPCNotification))            {}
func (*scripted) Close() error                                                    { return nil }
func (*scripted) GetSessionId() string                                            { return "" }
func (s *scripted) SetRequestHandler(f transport.RequestHandler)                  { s.handler = f }
func (s *scripted) SendRequest(ctx context.Context, r transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	if r.Method == "tools/call" {
		s.mu.Lock()
		s.calls = append(s.calls, sentCall{ctx, r})
		s.mu.Unlock()
		var call struct{ Name string }
		if raw, err := mcpgo.Encode(r.Params); err != nil || json.Unmarshal(raw, &call) != nil {
			return nil, errors.New("the params are malformed")
		}
		if call.Name == "wait" {
			<-ctx.Done()
			return nil, ctx.Err()
		}
	}
	result, ok := s.results[r.Method]
	if !ok {
		return nil, errors.New("unexpected " + r.Method)
	}
	return &transport.JSONRPCResponse{JSONRPC: "2.0", ID: r.ID, Result: json.RawMessage(result)}, nil
}

func newScripted() *scripted {
	return &scripted{results: map[string]string{
		"initialize":      `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`,
		"server/discover": `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"resultType":"complete","ttlMs":0,"cacheScope":"private"}`,
		"tools/list": `{"tools":[{"name":"any","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}},` +
			`{"name":"wait","inputSchema":{"type":"object"}}],"resultType":"complete","ttlMs":0,"cacheScope":"private"}`,
		"tools/call": `{"content":[],"resultType":"complete"}`,
	}}
}

func TestResponseToInputRequestNamesTask(t *testing.T) {
	over := newScripted()
	c := mcpgo.NewClient(over, client.WithRootsHandler(answers{}))
	defer c.Close()
	if err := c.Client.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	const related = `"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"a"}}`
	for params, want := range map[string]string{
		`{` + related + `}`: `{` + related + `,"roots":[{"uri":"file:///here"}]}`,
		`{}`:                `{"roots":[{"uri":"file:///here"}]}`,
	} {
		r, err := over.handler(t.Context(), transport.JSONRPCRequest{ID: mcp.NewRequestId("1"), Method: "roots/list", Params: json.RawMessage(params)})
		if err != nil || string(r.Result) != want {
			t.Errorf("%s: got %v, %v", params, r, err)
		}
	}
}

func TestAnnotatedArgumentsAreHeaderFields(t *testing.T) {
	for version, want := range map[string]string{mcp.ProtocolVersion20260728: "eu", mcp.ProtocolVersion20251125: ""} {
		over := newScripted()
		c := connect(t, over, version, mcp.ClientCapabilities{})
		if _, err := c.Client.ListTools(t.Context(), mcp.ListToolsRequest{}); err != nil {
			t.Fatal(err)
		}
		call := callOf("any", nil)
		call.Params.Arguments = map[string]any{"region": "eu"}
		call.Header = http.Header{"X-Own": {"own"}}
		if _, err := c.Invoke(t.Context(), call); err != nil {
			t.Fatal(err)
		}
		if h := over.calls[0].request.Header; h.Get("Mcp-Param-Region") != want || h.Get("X-Own") != "own" {
			t.Errorf("%s: got %v", version, h)
		}
	}
}

func TestEndOfContextEndsRequest(t *testing.T) {
	for _, version := range []string{mcp.ProtocolVersion20251125, mcp.ProtocolVersion20260728} {
		synctest.Test(t, func(t *testing.T) {
			over := newScripted()
			c := connect(t, over, version, mcp.ClientCapabilities{})
			ctx, cancel := context.WithCancel(t.Context())
			failed := make(chan error, 1)
			go func() { // ends with the call
				_, err := c.Invoke(ctx, callOf("wait", nil))
				failed <- err
			}()
			synctest.Wait()
			if over.calls[0].ctx.Err() != nil {
				t.Errorf("%s: the request has ended before its context", version)
			}
			cancel()
			if err := <-failed; !errors.Is(err, context.Canceled) {
				t.Errorf("%s: got %v", version, err)
			}
			synctest.Wait()
			if over.calls[0].ctx.Err() == nil {
				t.Errorf("%s: the request continues", version)
			}
		})
	}
}

// A late response to a request of the first session must not be taken for the response to a request
// of the second one.
func TestSecondHandshakeUsesNewRequestIDs(t *testing.T) {
	over := newScripted()
	c := connect(t, over, mcp.ProtocolVersion20251125, mcp.ClientCapabilities{})
	for range 2 {
		if _, err := c.Invoke(t.Context(), callOf("any", nil)); err != nil {
			t.Fatal(err)
		}
		var again mcp.InitializeRequest
		again.Params.ProtocolVersion = mcp.ProtocolVersion20251125
		if _, err := c.Client.Initialize(t.Context(), again); err != nil {
			t.Fatal(err)
		}
	}
	if a, b := over.calls[0].request.ID.String(), over.calls[1].request.ID.String(); a == b {
		t.Errorf("both requests have the id %s", a)
	}
}
