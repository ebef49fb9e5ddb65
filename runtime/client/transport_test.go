package client_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// beServer is the environment variable that makes the test binary a server on standard input and
// output.
const beServer = "MCPWIRE_TEST_SERVER"

func TestMain(m *testing.M) {
	if kind := os.Getenv(childEnv); kind != "" {
		serveChild(kind)
		return
	}
	if os.Getenv(beServer) == "" {
		os.Exit(m.Run())
	}
	if err := serveEcho(stdio.Server(stdio.Options{}), func() {}).Wait(); err != nil {
		os.Exit(1)
	}
}

// serveEcho serves a tool that returns its params. It calls listed for each tools/list.
func serveEcho(conn transport.Conn, listed func()) *session.Session {
	capabilities := mcp.ServerCapabilities{Tools: &mcp.ServerCapabilitiesTools{ListChanged: new(true)}}
	return session.Serve(conn, &mcp.InitializeResult{
		ServerInfo: mcp.Implementation{Name: "echo", Version: "1"}, Capabilities: capabilities,
	}, &session.Options{Handler: func(_ context.Context, req *session.Request) (codec.Encoder, error) {
		switch req.Method {
		case "tools/list":
			listed()
			return &mcp.ListToolsResult{Tools: []mcp.Tool{{Name: "echo"}}}, nil
		case "tools/call":
			return session.Raw(`{"content":[{"type":"text","text":"` + strings.ReplaceAll(string(req.Params), `"`, `'`) + `"}]}`), nil
		}
		return nil, nil
	}})
}

// echoes checks a call of the echo tool.
func echoes(t *testing.T, c *client.Client) {
	t.Helper()
	result, err := c.CallTool(t.Context(), "echo", map[string]string{"say": "hello"})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := result.Content[0].(*mcp.TextContent).Text, `{'arguments':{'say':'hello'},'name':'echo'}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Proves SDK-11, TRANS-02.
func TestCommandStartsServerProcess(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := stdio.Command{Path: program, Env: append(stdio.DefaultEnv(), beServer+"=1")}
	c, err := client.Command(t.Context(), command, nil)
	if err != nil {
		t.Fatal(err)
	}
	echoes(t, c)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	command.Path = "/no/such/program"
	if _, err := client.Command(t.Context(), command, nil); err == nil {
		t.Error("Command succeeded for a missing program")
	}
}

func TestDialConnectsToURL(t *testing.T) {
	open := func(_ *http.Request, conn transport.Conn) { serveEcho(conn, func() {}) }
	handler := streamable.NewHandler(open, streamable.HandlerOptions{})
	http := httptest.NewServer(handler)
	defer http.Close()
	defer handler.Close()
	c, err := client.Dial(t.Context(), http.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	echoes(t, c)
	if got := names(t, c.Tools(t.Context()), toolName); len(got) != 1 {
		t.Errorf("got %q", got)
	}
	if _, err := client.Dial(t.Context(), "ftp://x.example", nil); err == nil {
		t.Error("Dial accepted an ftp URL")
	}
}

// A server that dropped the session may have been replaced: its lists are fetched again.
func TestListIsFetchedAgainInNewSession(t *testing.T) {
	lists := make(chan bool, 10)
	newHandler := func() *streamable.Handler {
		return streamable.NewHandler(func(_ *http.Request, conn transport.Conn) {
			serveEcho(conn, func() { lists <- true })
		}, streamable.HandlerOptions{})
	}
	var current atomic.Pointer[streamable.Handler]
	current.Store(newHandler())
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { current.Load().ServeHTTP(w, r) }))
	defer s.Close()
	defer func() { current.Load().Close() }()
	reopened := make(chan bool, 1)
	var o client.Options
	o.Session.Hooks.Reopened = func(*mcp.InitializeResult) { reopened <- true }
	c, err := client.Dial(t.Context(), s.URL, &o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 2 {
		names(t, c.Tools(t.Context()), toolName)
	}
	if len(lists) != 1 {
		t.Errorf("the list was requested %d times", len(lists))
	}
	old := current.Swap(newHandler())
	old.Close()
	echoes(t, c)
	<-reopened
	names(t, c.Tools(t.Context()), toolName)
	if len(lists) != 2 {
		t.Errorf("the list was requested %d times", len(lists))
	}
}
