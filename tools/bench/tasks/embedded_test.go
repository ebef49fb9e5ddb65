//go:build unix

package tasks

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	mcpgo "github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	official "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpwire/mcpwire/internal/sessiontest"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/embed"
	"github.com/mcpwire/mcpwire/runtime/embed/gosdk"
	mcpgoembed "github.com/mcpwire/mcpwire/runtime/embed/mcpgo"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	wire "github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// BenchmarkEmbeddedCycle compares task cycles of servers of other SDKs with those of the tasks of
// mcp-go itself, the last contestant. The contestants take turns. Run it with -benchtime, such as
// 7x for seven rounds.
//
// The contestants "mcpgo" and "mcp-go" use the client of mcp-go. All others use a session of this
// module; "mcp-go-by-session" calls the tasks of mcp-go itself with it. A "floor" makes two plain
// calls to the same server without tasks, with the same client: a cycle has as many exchanges.
// "gosdk-conn" has a connection of this module instead of the StdioTransport of the SDK. In memory,
// all contestants of the official SDK have such a connection.
func BenchmarkEmbeddedCycle(b *testing.B) {
	const rest = keeping + keeping/10
	b.Run("memory", func(b *testing.B) {
		contest(b, rest,
			sessionContestant("gosdk", officialMemory(b, true), true),
			sessionContestant("gosdk-floor", officialMemory(b, false), false),
			mcpgoContestant("mcpgo", mcpgoMemory(b), true),
			mcpgoContestant("mcpgo-floor", connectMCPGo(b, doneMCPGo), false),
			mcpgoContestant("mcp-go", connectMCPGo(b, doneMCPGo), true))
	})
	b.Run("stdio", func(b *testing.B) {
		contest(b, rest,
			sessionContestant("gosdk", startServer(b, "gosdk"), true),
			sessionContestant("gosdk-conn", startServer(b, "gosdk-conn"), true),
			sessionContestant("gosdk-floor", startServer(b, "gosdk-floor"), false),
			sessionContestant("mcpgo", startServer(b, "mcpgo"), true),
			sessionContestant("mcpgo-floor", startServer(b, "mcp-go"), false),
			sessionContestant("mcp-go", startServer(b, "mcp-go"), true))
	})
	b.Run("http", func(b *testing.B) {
		own := server.NewStreamableHTTPServer(serverMCPGo(doneMCPGo))
		contest(b, rest,
			sessionContestant("gosdk", dialSession(b, officialHandler(b, true)), true),
			sessionContestant("gosdk-floor", dialSession(b, officialHandler(b, false)), false),
			sessionContestant("mcpgo-by-session", dialSession(b, mcpgoHandler(b)), true),
			sessionContestant("mcpgo-floor", dialSession(b, own), false),
			sessionContestant("mcp-go-by-session", dialSession(b, own), true),
			mcpgoContestant("mcpgo", dialMCPGo(b, mcpgoHandler(b)), true),
			mcpgoContestant("mcp-go", dialMCPGo(b, own), true))
	})
}

// sessionContestant makes cycles with a session of this module: a task, or two plain calls.
func sessionContestant(name string, s *session.Session, asTask bool) contestant {
	peer := mcp.ToServer{Caller: s}
	if asTask {
		return contestant{name, func() error {
			return sessionCycle(peer, &mcp.CallToolRequestParams{Name: "t", Task: new(mcp.TaskMetadata)})
		}}
	}
	return contestant{name, func() error {
		for range 2 {
			if _, err := peer.CallTool(context.Background(), &mcp.CallToolRequestParams{Name: "t"}); err != nil {
				return err
			}
		}
		return nil
	}}
}

// mcpgoContestant makes the same cycles with a client of mcp-go.
func mcpgoContestant(name string, c *client.Client, asTask bool) contestant {
	if asTask {
		return contestant{name, func() error {
			id, err := createMCPGo(c, keeping.Milliseconds())
			if err == nil {
				_, err = resultMCPGo(c, id)
			}
			return err
		}}
	}
	var q mcpgo.CallToolRequest
	q.Params.Name = "t"
	return contestant{name, func() error {
		for range 2 {
			if _, err := c.CallTool(context.Background(), q); err != nil {
				return err
			}
		}
		return nil
	}}
}

func doneMCPGo(context.Context, mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
	return mcpgo.NewToolResultText("done"), nil
}

func embedOptions() embed.Options {
	return embed.Options{
		Tasks: task.Options{Store: memory.New(), Limits: unlimited, TTL: task.TTL{Default: keeping}},
		Tools: map[string]embed.Tool{"t": {}},
	}
}

// newOfficial returns a server of the official SDK, and its tasks if embedded is true.
func newOfficial(embedded bool) (*official.Server, *gosdk.Tasks, error) {
	s := official.NewServer(&official.Implementation{Name: "s", Version: "1"}, nil)
	s.AddTool(&official.Tool{Name: "t", InputSchema: map[string]any{"type": "object"}}, func(context.Context, *official.CallToolRequest) (*official.CallToolResult, error) {
		return &official.CallToolResult{Content: []official.Content{&official.TextContent{Text: "done"}}}, nil
	})
	if !embedded {
		return s, nil, nil
	}
	t, err := gosdk.Attach(s, embedOptions())
	return s, t, err
}

func openOfficial(b *testing.B, embedded bool) (*official.Server, *gosdk.Tasks) {
	b.Helper()
	s, t, err := newOfficial(embedded)
	if err != nil {
		b.Fatal(err)
	}
	if t != nil {
		b.Cleanup(func() { t.Close() })
	}
	return s, t
}

func officialMemory(b *testing.B, embedded bool) *session.Session {
	b.Helper()
	s, t := openOfficial(b, embedded)
	here, there := inmemory.Pair(inmemory.Options{})
	end := gosdk.TransportOf(there)
	if embedded {
		end = t.Transport(end)
	}
	if _, err := s.Connect(context.Background(), end, nil); err != nil {
		b.Fatal(err)
	}
	return open(b, here)
}

func officialHandler(b *testing.B, embedded bool) http.Handler {
	s, t := openOfficial(b, embedded)
	o := &official.StreamableHTTPOptions{JSONResponse: true} // like mcp-go
	if embedded {
		return t.Handler(o)
	}
	return official.NewStreamableHTTPHandler(func(*http.Request) *official.Server { return s }, o)
}

// newMCPGo returns a server of mcp-go with tasks of this module.
func newMCPGo() (*server.MCPServer, *mcpgoembed.Tasks, error) {
	s := server.NewMCPServer("s", "1")
	s.AddTool(mcpgo.NewTool("t"), doneMCPGo)
	t, err := mcpgoembed.Attach(s, embedOptions())
	return s, t, err
}

func embedMCPGo(b *testing.B) (*server.MCPServer, *mcpgoembed.Tasks) {
	b.Helper()
	s, t, err := newMCPGo()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { t.Close() })
	return s, t
}

func mcpgoMemory(b *testing.B) *client.Client {
	_, t := embedMCPGo(b)
	return openMCPGo(b, client.NewClient(t.InProcess()))
}

func mcpgoHandler(b *testing.B) http.Handler {
	s, t := embedMCPGo(b)
	return t.Handler(server.NewStreamableHTTPServer(s))
}

func dialMCPGo(b *testing.B, h http.Handler) *client.Client {
	b.Helper()
	s := httptest.NewServer(h)
	b.Cleanup(s.Close)
	c, err := client.NewStreamableHttpClient(s.URL, transport.WithHTTPBasicClient(pooled(b)))
	if err != nil {
		b.Fatal(err)
	}
	return openMCPGo(b, c)
}

func dialSession(b *testing.B, h http.Handler) *session.Session {
	b.Helper()
	s := httptest.NewServer(h)
	b.Cleanup(s.Close)
	o := streamable.ClientOptions{NoListen: true}
	o.HTTP = pooled(b)
	conn, err := streamable.Dial(s.URL, o)
	if err != nil {
		b.Fatal(err)
	}
	return open(b, conn)
}

// open opens a session of revision 2025-11-25. All callers share it, so it accepts more pending
// notifications than the default.
func open(b *testing.B, conn wire.Conn) *session.Session {
	b.Helper()
	c, err := session.Connect(context.Background(), conn, &mcp.InitializeRequestParams{ClientInfo: mcp.Implementation{Name: "c", Version: "1"}},
		&session.Options{Handler: sessiontest.Methods(nil, nil), Limits: session.Limits{Notifications: 1 << 20}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return c
}

// startServer starts this program as a server on standard input and output.
func startServer(b *testing.B, name string) *session.Session {
	b.Helper()
	conn, err := stdio.Start(stdio.Command{Path: os.Args[0], Env: append(stdio.DefaultEnv(), serverEnv+"="+name), Stderr: os.Stderr})
	if err != nil {
		b.Fatal(err)
	}
	return open(b, conn)
}

// serveStdio makes this program one of the servers on standard input and output.
func serveStdio(ctx context.Context, name string) error {
	switch name {
	case "gosdk", "gosdk-conn", "gosdk-floor":
		s, t, err := newOfficial(name != "gosdk-floor")
		if err != nil {
			return err
		}
		var end official.Transport = new(official.StdioTransport)
		if name == "gosdk-conn" {
			end = gosdk.TransportOf(stdio.Server(stdio.Options{}))
		}
		if t != nil {
			end = t.Transport(end)
		}
		return s.Run(ctx, end)
	case "mcpgo":
		s, t, err := newMCPGo()
		if err != nil {
			return err
		}
		return t.ServeStdio(ctx, server.NewStdioServer(s), os.Stdin, os.Stdout)
	case "mcp-go":
		return server.NewStdioServer(serverMCPGo(doneMCPGo)).Listen(ctx, os.Stdin, os.Stdout)
	}
	return fmt.Errorf("unknown server %q", name)
}
