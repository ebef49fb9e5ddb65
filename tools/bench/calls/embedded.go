package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	mcpgo "github.com/mark3labs/mcp-go/client"
	mcpgotransport "github.com/mark3labs/mcp-go/client/transport"
	mcpgotypes "github.com/mark3labs/mcp-go/mcp"
	mcpgoserver "github.com/mark3labs/mcp-go/server"
	official "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpwire/mcpwire/runtime/embed"
	"github.com/mcpwire/mcpwire/runtime/embed/gosdk"
	mcpgoembed "github.com/mcpwire/mcpwire/runtime/embed/mcpgo"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
)

// embeddings returns the contestants for each of the other SDKs: plain calls of its client to its
// server alone, and to the same server with tasks. The arguments have a string of size bytes.
func embeddings(size int) [][]contestant {
	list := func(name string, open func(embedded bool, transport string, size int) opener) []contestant {
		ways := func(embedded bool) map[string]opener {
			m := make(map[string]opener)
			for _, transport := range []string{inMemory, overJSON, overModern} {
				m[transport] = open(embedded, transport, size)
			}
			return m
		}
		return []contestant{{name + " alone", ways(false), nil}, {name + " with tasks", ways(true), nil}}
	}
	return [][]contestant{list("go-sdk", officialWithTasks), list("mcp-go", mcpgoWithTasks)}
}

// sizedArguments returns the arguments of a call, with a string of size bytes unless size is 0.
func sizedArguments(size int) map[string]any {
	m := arguments()
	if size > 0 {
		m["text"] = strings.Repeat("x", size)
	}
	return m
}

// withTasks returns the options of a server whose tool is durable.
func withTasks() embed.Options {
	return embed.Options{Tasks: task.Options{Store: memory.New()}, Tools: map[string]embed.Tool{tool: embed.Durable()}}
}

// sessionVersion is the newest revision with sessions.
const sessionVersion = "2025-11-25"

func versionOf(transport string) string {
	if transport == overModern {
		return modernVersion
	}
	return sessionVersion
}

// ending returns c with a Close that also calls after.
func ending(c client, after func() error) client {
	inner := c.close
	c.close = sync.OnceValue(func() error { return errors.Join(inner(), after()) })
	return c
}

func officialWithTasks(embedded bool, transport string, size int) opener {
	return func(ctx context.Context) (client, error) {
		s, end := officialServer(), func() error { return nil }
		handler := func(o *official.StreamableHTTPOptions) http.Handler {
			o.Stateless = transport == overModern
			return official.NewStreamableHTTPHandler(func(*http.Request) *official.Server { return s }, o)
		}
		wrap := func(t official.Transport) official.Transport { return t }
		if embedded {
			t, err := gosdk.Attach(s, withTasks())
			if err != nil {
				return client{}, err
			}
			handler, wrap, end = t.Handler, t.Transport, t.Close
		}
		if transport == inMemory {
			here, there := official.NewInMemoryTransports()
			if _, err := s.Connect(ctx, wrap(there), nil); err != nil {
				return client{}, err
			}
			c, err := officialCaller(ctx, here, versionOf(transport), size)
			return ending(c, end), err
		}
		server, pool := httptest.NewServer(handler(&official.StreamableHTTPOptions{JSONResponse: true})), pooled()
		c, err := officialCaller(ctx, &official.StreamableClientTransport{Endpoint: server.URL, HTTPClient: pool, DisableStandaloneSSE: true}, versionOf(transport), size)
		return ending(closing(c, pool, server), end), err
	}
}

func officialCaller(ctx context.Context, t official.Transport, version string, size int) (client, error) {
	s, err := official.NewClient(&official.Implementation{Name: "client", Version: "1"}, nil).Connect(ctx, t, &official.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		return client{close: func() error { return nil }}, err
	}
	sized := sizedArguments(size)
	return client{
		version: s.InitializeResult().ProtocolVersion,
		call: func(ctx context.Context) error {
			result, err := s.CallTool(ctx, &official.CallToolParams{Name: tool, Arguments: sized})
			if err != nil {
				return err
			}
			return check(result.Content[0].(*official.TextContent).Text, nil)
		},
		close: sync.OnceValue(s.Close),
	}, nil
}

func mcpgoWithTasks(embedded bool, transport string, size int) opener {
	return func(ctx context.Context) (client, error) {
		s, end := mcpgoServer(), func() error { return nil }
		var handler http.Handler = mcpgoserver.NewStreamableHTTPServer(s)
		var direct mcpgotransport.Interface = mcpgotransport.NewInProcessTransport(s)
		if embedded {
			t, err := mcpgoembed.Attach(s, withTasks())
			if err != nil {
				return client{}, err
			}
			handler, direct, end = t.Handler(mcpgoserver.NewStreamableHTTPServer(s)), t.InProcess(), t.Close
		}
		if transport == inMemory {
			c, err := mcpgoCaller(ctx, direct, versionOf(transport), size)
			return ending(c, end), err
		}
		server, pool := httptest.NewServer(handler), pooled()
		dialed, err := mcpgotransport.NewStreamableHTTP(server.URL, mcpgotransport.WithHTTPBasicClient(pool))
		if err != nil {
			return client{}, err
		}
		c, err := mcpgoCaller(ctx, dialed, versionOf(transport), size)
		return ending(closing(c, pool, server), end), err
	}
}

func mcpgoCaller(ctx context.Context, t mcpgotransport.Interface, version string, size int) (client, error) {
	c := mcpgo.NewClient(t, mcpgo.WithProtocolVersion(version))
	none := client{close: func() error { return nil }}
	if err := c.Start(ctx); err != nil {
		return none, err
	}
	var handshake mcpgotypes.InitializeRequest
	handshake.Params.ProtocolVersion = version
	handshake.Params.ClientInfo = mcpgotypes.Implementation{Name: "client", Version: "1"}
	if _, err := c.Initialize(ctx, handshake); err != nil {
		return none, err
	}
	sized := sizedArguments(size)
	return client{
		version: c.ProtocolVersion(),
		call: func(ctx context.Context) error {
			var req mcpgotypes.CallToolRequest
			req.Params.Name, req.Params.Arguments = tool, sized
			result, err := c.CallTool(ctx, req)
			if err != nil {
				return err
			}
			return check(result.Content[0].(mcpgotypes.TextContent).Text, nil)
		},
		close: sync.OnceValue(c.Close),
	}, nil
}
