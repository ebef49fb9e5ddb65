package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"

	mcpgo "github.com/mark3labs/mcp-go/client"
	mcpgotransport "github.com/mark3labs/mcp-go/client/transport"
	mcpgoprotocol "github.com/mark3labs/mcp-go/mcp"
	mcpgoserver "github.com/mark3labs/mcp-go/server"
	official "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// contestant is an SDK.
type contestant struct {
	name    string
	handler func() http.Handler // serves sessions with a tool

	// connect opens a session with its GET stream, or a subscription if modern is set. It lasts
	// until the returned value is closed.
	connect func(ctx context.Context, url string, pool *http.Client) (any, error)

	modern bool // the clients listen with subscriptions/listen of revision 2026-07-28
}

// plain is the contestant without an SDK.
const plain = "net/http alone"

// contestants returns all contestants, mcpwire first.
func contestants() []contestant {
	return []contestant{
		{"mcpwire", mcpwireHandler, mcpwireConnect, false},
		{"mcpwire, listen", mcpwireHandler, mcpwireListen, true},
		{"official Go SDK", officialHandler, officialConnect, false},
		{"mcp-go", mcpgoHandler, mcpgoConnect, false},
		{plain, plainHandler, plainConnect, false},
	}
}

func find(name string) (contestant, error) {
	for _, c := range contestants() {
		if c.name == name {
			return c, nil
		}
	}
	return contestant{}, fmt.Errorf("unknown contestant %q", name)
}

const tool = "weather"

func mcpwireHandler() http.Handler {
	s := server.New("server", "1", nil)
	server.AddTool(s, tool, "", func(context.Context, *server.Call, struct{}) (string, error) { return "rain", nil })
	handler, err := s.Handler(&streamable.HandlerOptions{Limits: streamable.Limits{Sessions: 100_000, Requests: 100_000}})
	if err != nil {
		panic(err)
	}
	return handler
}

func mcpwireConnect(ctx context.Context, url string, pool *http.Client) (any, error) {
	o := &client.Options{Info: mcp.Implementation{Name: "client", Version: "1"}, Session: session.Options{Revisions: session.Revisions()}}
	o.HTTP.Options = httpclient.Options{HTTP: pool}
	return client.Dial(ctx, url, o)
}

// mcpwireListen opens the subscription of a client that follows the list of tools.
func mcpwireListen(ctx context.Context, url string, pool *http.Client) (any, error) {
	o := &client.Options{
		Info: mcp.Implementation{Name: "client", Version: "1"}, Session: session.Options{Revisions: session.ModernRevisions()},
		Notifications: mcp.UnimplementedClientNotificationHandler{},
	}
	o.HTTP.Options = httpclient.Options{HTTP: pool}
	return client.Dial(ctx, url, o)
}

func officialHandler() http.Handler {
	s := official.NewServer(&official.Implementation{Name: "server", Version: "1"}, nil)
	s.AddTool(&official.Tool{Name: tool, InputSchema: map[string]any{"type": "object"}}, func(context.Context, *official.CallToolRequest) (*official.CallToolResult, error) {
		return &official.CallToolResult{Content: []official.Content{&official.TextContent{Text: "rain"}}}, nil
	})
	return official.NewStreamableHTTPHandler(func(*http.Request) *official.Server { return s }, nil)
}

func officialConnect(ctx context.Context, url string, pool *http.Client) (any, error) {
	c := official.NewClient(&official.Implementation{Name: "client", Version: "1"}, nil)
	return c.Connect(ctx, &official.StreamableClientTransport{Endpoint: url, HTTPClient: pool}, nil)
}

func mcpgoHandler() http.Handler {
	s := mcpgoserver.NewMCPServer("server", "1")
	s.AddTool(mcpgoprotocol.NewTool(tool), func(context.Context, mcpgoprotocol.CallToolRequest) (*mcpgoprotocol.CallToolResult, error) {
		return mcpgoprotocol.NewToolResultText("rain"), nil
	})
	return mcpgoserver.NewStreamableHTTPServer(s)
}

func mcpgoConnect(ctx context.Context, url string, pool *http.Client) (any, error) {
	c, err := mcpgo.NewStreamableHttpClient(url, mcpgotransport.WithHTTPBasicClient(pool), mcpgotransport.WithContinuousListening(), mcpgotransport.WithHTTPLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, err
	}
	if err := c.Start(ctx); err != nil {
		return nil, err
	}
	var hello mcpgoprotocol.InitializeRequest
	hello.Params.ProtocolVersion = string(mcp.Revision20251125)
	hello.Params.ClientInfo = mcpgoprotocol.Implementation{Name: "client", Version: "1"}
	_, err = c.Initialize(ctx, hello)
	return c, err
}

// modernPath is where plainHandler speaks revision 2026-07-28. Elsewhere, clients have to open a
// session.
const modernPath = "/modern"

// plainHandler responds to the messages that open a session or a subscription, and holds its
// stream.
func plainHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.Header().Set("Content-Type", "text/event-stream")
			w.WriteHeader(http.StatusOK)
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		}
		var message struct {
			ID     json.RawMessage
			Method string
			Params struct {
				Notifications json.RawMessage
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&message); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		switch {
		case message.ID == nil:
			w.WriteHeader(http.StatusAccepted)
		case message.Method == "initialize":
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Mcp-Session-Id", "1")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":"server","version":"1"}}}`, message.ID, mcp.Revision20251125)
		case message.Method == mcp.MethodServerDiscover && r.URL.Path == modernPath:
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","supportedVersions":[%q],"capabilities":{"tools":{"listChanged":true}},"ttlMs":0,"cacheScope":"public"}}`, message.ID, mcp.Revision20260728)
		case message.Method == mcp.MethodSubscriptionsListen:
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, `data: {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s},"notifications":%s}}`+"\n\n", message.ID, message.Params.Notifications)
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
		default:
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"method not found"}}`, message.ID)
		}
	})
}

// plainConnect opens only the stream and reads it.
func plainConnect(ctx context.Context, url string, pool *http.Client) (any, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := pool.Do(r)
	if err != nil {
		return nil, err
	}
	go func() { // ends with the process
		var nothing [1]byte
		answer.Body.Read(nothing[:])
	}()
	return answer, nil
}
