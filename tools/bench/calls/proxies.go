package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"

	official "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpwire/mcpwire/mcp"
	mcpwireclient "github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/proxy"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// proxies returns the contestants that compare a call through a proxy with a direct one. The server
// behind each proxy is the contestant before it, over the same transport.
func proxies() []contestant {
	return []contestant{
		serverText().contestant(direct),
		{"mcpwire proxy", map[string]opener{
			inMemory:  proxyOf(connectInMemory).inMemory,
			overStdio: func(ctx context.Context) (client, error) { return proxyOf(nil).overStdio(ctx, "mcpwire proxy") },
			overJSON:  proxyOverHTTP(0),
			overSSE:   proxyOverHTTP(-1),
		}, proxyServe},
		{officialDirect, map[string]opener{inMemory: officialInMemory, overStdio: officialOverStdio, overJSON: officialOverHTTP(true), overSSE: officialOverHTTP(false)}, officialServe},
		{"official proxy", map[string]opener{
			inMemory: officialProxyInMemory, overStdio: officialProxyOverStdio,
			overJSON: officialProxyOverHTTP(true), overSSE: officialProxyOverHTTP(false),
		}, officialProxyServe},
	}
}

const (
	direct         = "mcpwire server"
	officialDirect = "official Go SDK"
	prefix         = "up_" // of the tool behind a proxy
)

func newProxy(connect func(context.Context) (transport.Conn, error)) *proxy.Proxy {
	return must(proxy.New("proxy", "1", &proxy.Options{Upstreams: []proxy.Upstream{{Name: "up", Prefix: prefix, Connect: connect}}}))
}

// proxyServe runs a proxy as a process. It waits for the process of the server behind it, whose
// processor time counts, too.
func proxyServe(ctx context.Context) error {
	p := newProxy(connectOverStdio)
	return errors.Join(p.Run(ctx, stdio.Server(stdio.Options{})), p.Close())
}

// proxyOf returns a proxy before an upstream.
func proxyOf(connect func(context.Context) (transport.Conn, error)) mcpwire {
	given := must(json.Marshal(arguments()))
	return mcpwire{service{serve: func(conn transport.Conn) *session.Session {
		return must(newProxy(connect).Serve(conn))
	}}, func(ctx context.Context, conn transport.Conn, _ ...mcp.Revision) (client, error) {
		c, err := mcpwireclient.Connect(ctx, conn, &mcpwireclient.Options{Info: mcp.Implementation{Name: "client", Version: "1"}})
		if err != nil {
			return client{}, err
		}
		_, err = c.Tool(ctx, prefix+tool)
		return client{string(c.Session().Revision()), func(ctx context.Context) error {
			result, err := c.CallTool(ctx, prefix+tool, json.RawMessage(given))
			if err != nil {
				return err
			}
			return check(result.Content[0].(*mcp.TextContent).Text, nil)
		}, c.Close}, err
	}}
}

func connectInMemory(context.Context) (transport.Conn, error) {
	a, b := inmemory.Pair(inmemory.Options{})
	serverText().serve(b)
	return a, nil
}

func connectOverStdio(context.Context) (transport.Conn, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return stdio.Start(stdio.Command{Path: path, Args: []string{serveFlag, direct}, Stderr: os.Stderr})
}

func proxyOverHTTP(streamAfter int) opener {
	return func(ctx context.Context) (client, error) {
		options := streamable.HandlerOptions{}
		if streamAfter < 0 {
			options.Streams.After = -1
		}
		handler := streamable.NewHandler(func(_ *http.Request, conn transport.Conn) { serverText().serve(conn) }, options)
		server, pool := httptest.NewServer(handler), pooled()
		c, err := proxyOf(func(context.Context) (transport.Conn, error) {
			return streamable.Dial(server.URL, streamable.ClientOptions{Options: httpclient.Options{HTTP: pool}})
		}).overHTTP(options.Streams.After)(ctx)
		if err != nil {
			return client{}, err
		}
		return closing(c.closing(handler.Close), pool, server), nil
	}
}

// officialProxy is the same proxy, written with the official SDK.
func officialProxy(ctx context.Context, t official.Transport) (s *official.Server, up *official.ClientSession, err error) {
	up, err = official.NewClient(&official.Implementation{Name: "proxy", Version: "1"}, nil).Connect(ctx, t, nil)
	if err != nil {
		return nil, nil, err
	}
	s = official.NewServer(&official.Implementation{Name: "proxy", Version: "1"}, nil)
	for listed, err := range up.Tools(ctx, nil) {
		if err != nil {
			return nil, nil, err
		}
		shown := *listed
		shown.Name = prefix + listed.Name
		s.AddTool(&shown, func(ctx context.Context, req *official.CallToolRequest) (*official.CallToolResult, error) {
			return up.CallTool(ctx, &official.CallToolParams{Meta: req.Params.Meta, Name: listed.Name, Arguments: req.Params.Arguments})
		})
	}
	return s, up, nil
}

func officialProxyInMemory(ctx context.Context) (client, error) {
	a, b := official.NewInMemoryTransports()
	if _, err := officialServer().Connect(ctx, b, nil); err != nil {
		return client{}, err
	}
	s, _, err := officialProxy(ctx, a)
	if err != nil {
		return client{}, err
	}
	near, far := official.NewInMemoryTransports()
	if _, err := s.Connect(ctx, far, nil); err != nil {
		return client{}, err
	}
	return officialClient(ctx, near, prefix+tool)
}

func officialProxyOverStdio(ctx context.Context) (client, error) {
	path, err := os.Executable()
	if err != nil {
		return client{}, err
	}
	cmd := exec.Command(path, serveFlag, "official proxy")
	cmd.Stderr = os.Stderr
	return officialClient(ctx, &official.CommandTransport{Command: cmd}, prefix+tool)
}

func officialProxyServe(ctx context.Context) error {
	path, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(path, serveFlag, officialDirect)
	cmd.Stderr = os.Stderr
	s, up, err := officialProxy(ctx, &official.CommandTransport{Command: cmd})
	if err != nil {
		return err
	}
	return errors.Join(s.Run(ctx, &official.StdioTransport{}), up.Close()) // waits for the process
}

func officialProxyOverHTTP(json bool) opener {
	return func(ctx context.Context) (client, error) {
		options := &official.StreamableHTTPOptions{JSONResponse: json}
		behind, pool := officialServer(), pooled()
		far := httptest.NewServer(official.NewStreamableHTTPHandler(func(*http.Request) *official.Server { return behind }, options))
		s, _, err := officialProxy(ctx, &official.StreamableClientTransport{Endpoint: far.URL, HTTPClient: pool})
		if err != nil {
			return client{}, err
		}
		near := httptest.NewServer(official.NewStreamableHTTPHandler(func(*http.Request) *official.Server { return s }, options))
		c, err := officialClient(ctx, &official.StreamableClientTransport{Endpoint: near.URL, HTTPClient: pool}, prefix+tool)
		return closing(c.closing(func() error { far.CloseClientConnections(); far.Close(); return nil }), pool, near), err
	}
}
