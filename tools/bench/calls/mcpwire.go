package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/mcp"
	mcpwireclient "github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// mcpwire is a way to use mcpwire: it makes a server and a client.
type mcpwire struct {
	service
	dial dialer
}

// service is a server. handler serves it over HTTP, with and without sessions; nil means with
// sessions alone.
type service struct {
	serve   func(transport.Conn) *session.Session
	handler func(streamable.HandlerOptions) *streamable.Handler
}

// dialer opens a client that speaks revisions, or those with sessions if there are none.
type dialer func(ctx context.Context, conn transport.Conn, revisions ...mcp.Revision) (client, error)

// contestant returns m as a contestant.
func (m mcpwire) contestant(name string) contestant {
	ways := map[string]opener{
		inMemory:  m.inMemory,
		overStdio: func(ctx context.Context) (client, error) { return m.overStdio(ctx, name) },
		overJSON:  m.overHTTP(0),
		overSSE:   m.overHTTP(-1),
	}
	if m.handler != nil {
		ways[overModern] = m.overHTTP(0, session.ModernRevisions()...)
		ways[overModernStdio] = func(ctx context.Context) (client, error) { return m.overStdio(ctx, name, session.ModernRevisions()...) }
	}
	return contestant{name, ways, func(context.Context) error { return m.serve(stdio.Server(stdio.Options{})).Wait() }}
}

func (m mcpwire) inMemory(ctx context.Context) (client, error) {
	a, b := inmemory.Pair(inmemory.Options{})
	s := m.serve(b)
	c, err := m.dial(ctx, a)
	return c.closing(s.Wait), err
}

func (m mcpwire) overStdio(ctx context.Context, name string, revisions ...mcp.Revision) (client, error) {
	path, err := os.Executable()
	if err != nil {
		return client{}, err
	}
	p, err := stdio.Start(stdio.Command{Path: path, Args: []string{serveFlag, name}, Stderr: os.Stderr})
	if err != nil {
		return client{}, err
	}
	return m.dial(ctx, p, revisions...)
}

func (m mcpwire) overHTTP(streamAfter time.Duration, revisions ...mcp.Revision) opener {
	return func(ctx context.Context) (client, error) {
		options := streamable.HandlerOptions{Streams: streamable.Streams{After: streamAfter}}
		handler := streamable.NewHandler(func(_ *http.Request, conn transport.Conn) { m.serve(conn) }, options)
		if len(revisions) > 0 {
			handler = m.handler(options)
		}
		server, pool := httptest.NewServer(handler), pooled()
		conn, err := streamable.Dial(server.URL, streamable.ClientOptions{Options: httpclient.Options{HTTP: pool}})
		if err != nil {
			return client{}, err
		}
		c, err := m.dial(ctx, conn, revisions...)
		return closing(c.closing(handler.Close), pool, server), err
	}
}

// sessionText returns a line of text. It decodes only the members that it needs.
func sessionText() mcpwire {
	given := must(json.Marshal(arguments()))
	result := server.Text(answer)
	return mcpwire{serveHandler(func(*mcp.CallToolRequestParams) (*mcp.CallToolResult, error) { return result, nil }),
		dialSession(func(ctx context.Context, s mcp.ToServer) error {
			outcome, err := s.CallTool(ctx, &mcp.CallToolRequestParams{Name: tool, Arguments: given})
			if err != nil {
				return err
			}
			return check(outcome.(*mcp.CallToolResult).Content[0].(*mcp.TextContent).Text, nil)
		})}
}

// serverText does the same with a tool that gets its arguments as JSON.
func serverText() mcpwire {
	given := must(json.Marshal(arguments()))
	result := server.Text(answer)
	return mcpwire{serveTool(func(s *server.Server) error {
		err := s.AddRawTool(mcp.Tool{Name: tool}, func(context.Context, *server.Call, json.RawMessage) (*mcp.CallToolResult, error) { return result, nil }).Err()
		return err
	}), dialClient(func(ctx context.Context, c *mcpwireclient.Client) error {
		result, err := c.CallTool(ctx, tool, json.RawMessage(given))
		if err != nil {
			return err
		}
		return check(result.Content[0].(*mcp.TextContent).Text, nil)
	})}
}

// sessionFixed sends the same messages as the contestants below, but does not decode their values.
func sessionFixed() mcpwire {
	given := must(json.Marshal(where))
	result := must(server.Structured(weather(where)))
	return mcpwire{serveHandler(func(*mcp.CallToolRequestParams) (*mcp.CallToolResult, error) { return result, nil }),
		dialSession(func(ctx context.Context, s mcp.ToServer) error {
			_, err := s.CallTool(ctx, &mcp.CallToolRequestParams{Name: tool, Arguments: given})
			return err
		})}
}

// sessionByHand converts structs by hand and checks nothing.
func sessionByHand() mcpwire {
	return mcpwire{serveHandler(func(p *mcp.CallToolRequestParams) (*mcp.CallToolResult, error) {
		var in place
		if err := codec.Unmarshal(p.Arguments, value.Of(&in)); err != nil {
			return nil, err
		}
		text, err := codec.Marshal(value.Of(weather(in)))
		if err != nil {
			return nil, err
		}
		return &mcp.CallToolResult{Content: []mcp.ContentBlock{&mcp.TextContent{Text: string(text)}}, StructuredContent: text}, nil
	}), dialSession(func(ctx context.Context, s mcp.ToServer) error {
		given, err := codec.Marshal(value.Of(where))
		if err != nil {
			return err
		}
		outcome, err := s.CallTool(ctx, &mcp.CallToolRequestParams{Name: tool, Arguments: given})
		if err != nil {
			return err
		}
		var out forecast
		return checkForecast(out, codec.Unmarshal(outcome.(*mcp.CallToolResult).StructuredContent, value.Of(&out)))
	})}
}

// serverStructs is the tool as an author writes it, and the call as a host makes it.
func serverStructs() mcpwire {
	return mcpwire{serveTool(func(s *server.Server) error {
		err := server.AddTool(s, tool, "", func(_ context.Context, _ *server.Call, in place) (forecast, error) { return weather(in), nil }).Err()
		return err
	}), dialClient(func(ctx context.Context, c *mcpwireclient.Client) error {
		result, err := c.CallTool(ctx, tool, where)
		if err != nil {
			return err
		}
		return checkForecast(mcpwireclient.Output[forecast](result))
	})}
}

// toolHandler serves only the tool.
type toolHandler struct {
	mcp.UnimplementedServerHandler
	call func(*mcp.CallToolRequestParams) (*mcp.CallToolResult, error)
}

func (h toolHandler) CallTool(_ context.Context, p *mcp.CallToolRequestParams) (mcp.CallToolOutcome, error) {
	return h.call(p)
}

func serveHandler(call func(*mcp.CallToolRequestParams) (*mcp.CallToolResult, error)) service {
	h := toolHandler{call: call}
	s := server.New("server", "1", &server.Options{Features: server.Features{
		Capabilities: func(c *mcp.ServerCapabilities) { c.Tools = &mcp.ServerCapabilitiesTools{} },
		Methods: map[string]session.Handler{mcp.MethodToolsCall: func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			return mcp.DispatchServer(ctx, h, req.Revision(), req.Method, req.Params)
		}},
	}})
	return service{
		func(conn transport.Conn) *session.Session { return must(s.Serve(conn)) },
		func(o streamable.HandlerOptions) *streamable.Handler { return must(s.Handler(&o)) },
	}
}

func dialSession(call func(context.Context, mcp.ToServer) error) dialer {
	return func(ctx context.Context, conn transport.Conn, revisions ...mcp.Revision) (client, error) {
		s, err := session.Connect(ctx, conn, &mcp.InitializeRequestParams{ClientInfo: mcp.Implementation{Name: "client", Version: "1"}},
			&session.Options{Revisions: revisions})
		if err != nil {
			return client{}, err
		}
		return client{string(s.Revision()), func(ctx context.Context) error { return call(ctx, mcp.ToServer{Caller: s}) }, s.Close}, nil
	}
}

func serveTool(add func(*server.Server) error) service {
	s := server.New("server", "1", nil)
	if err := add(s); err != nil {
		panic(err)
	}
	return service{
		func(conn transport.Conn) *session.Session { return must(s.Serve(conn)) },
		func(o streamable.HandlerOptions) *streamable.Handler { return must(s.Handler(&o)) },
	}
}

// dialClient opens a client that knows the tool, like a host, and therefore checks its output.
func dialClient(call func(context.Context, *mcpwireclient.Client) error) dialer {
	return func(ctx context.Context, conn transport.Conn, revisions ...mcp.Revision) (client, error) {
		c, err := mcpwireclient.Connect(ctx, conn, &mcpwireclient.Options{
			Info: mcp.Implementation{Name: "client", Version: "1"}, Session: session.Options{Revisions: revisions},
		})
		if err != nil {
			return client{}, err
		}
		_, err = c.Tool(ctx, tool)
		return client{string(c.Session().Revision()), func(ctx context.Context) error { return call(ctx, c) }, c.Close}, err
	}
}

// closing closes a client and then another object.
func (c client) closing(other func() error) client {
	inner := c.close
	c.close = func() error { return errors.Join(inner(), other()) }
	return c
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
