package server_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
	"github.com/mcpwire/mcpwire/runtime/transport/sse"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// callInfo is what a handler can learn about the request.
type callInfo struct {
	Client    string       `json:"client"`
	Sampling  bool         `json:"sampling"` // the client has the capability
	Unknown   bool         `json:"unknown"`  // the capabilities of the client are unknown
	Revision  mcp.Revision `json:"revision"`
	Trace     string       `json:"trace"` // of _meta
	Tenant    string       `json:"tenant"`
	HTTP      bool         `json:"http"`
	Remote    string       `json:"remote"` // without the port
	Principal string       `json:"principal"`
}

// infoTool returns what its call says about the request.
func infoTool(_ context.Context, c *server.Call, _ struct{}) (callInfo, error) {
	trace, _ := c.Meta().Extra.Get("trace")
	remote, _, _ := strings.Cut(c.RemoteAddr(), ":")
	return callInfo{
		Client: c.ClientInfo().Name, Sampling: c.ClientCapabilities() != nil && c.ClientCapabilities().Sampling != nil,
		Unknown: c.ClientCapabilities() == nil, Revision: c.Revision(), Trace: string(trace),
		Tenant: c.Header().Get("Tenant"), HTTP: c.Header() != nil, Remote: remote, Principal: c.Principal(),
	}, nil
}

func TestCallDescribesRequest(t *testing.T) {
	principal := func(r *http.Request) (string, error) { return r.Header.Get("User"), nil }
	serveHTTP := func(o streamable.HandlerOptions) func(*server.Server) http.Handler {
		return func(s *server.Server) http.Handler { return must(s.Handler(&o)) }
	}
	known := callInfo{Client: "host", Sampling: true, Revision: "2025-11-25", Trace: `"t1"`, Tenant: "acme", HTTP: true, Remote: "127.0.0.1", Principal: "ann"}
	stateless := known
	stateless.Client, stateless.Sampling, stateless.Unknown = "", false, true
	for name, test := range map[string]struct {
		handler func(*server.Server) http.Handler
		want    callInfo
	}{
		"Streamable HTTP":           {serveHTTP(streamable.HandlerOptions{Access: streamable.Access{Principal: principal}}), known},
		"stateless Streamable HTTP": {serveHTTP(streamable.HandlerOptions{Access: streamable.Access{Principal: principal}, Stateless: true}), stateless},
		"HTTP with SSE": {func(s *server.Server) http.Handler {
			return sse.NewHandler(func(_ *http.Request, conn transport.Conn) { s.Serve(conn) }, sse.HandlerOptions{Access: sse.Access{Principal: principal}})
		}, known},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, server.Options{})
			server.AddTool(s, "info", "", infoTool)
			web := httptest.NewServer(test.handler(s))
			t.Cleanup(web.Close)
			t.Cleanup(func() { s.Close() })
			c, err := client.Dial(t.Context(), web.URL, &client.Options{
				Info:    mcp.Implementation{Name: "host", Version: "1"},
				Input:   client.Input{Sample: func(context.Context, *client.SampleRequest) (*mcp.CreateMessageResult, error) { return nil, nil }},
				HTTP:    streamable.ClientOptions{Options: httpclient.Options{Header: http.Header{"Tenant": {"acme"}, "User": {"ann"}}}},
				Session: session.Options{Revisions: session.Revisions()},
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			result, err := c.Session().Call(t.Context(), "tools/call", session.Raw(`{"name":"info","_meta":{"trace":"t1"}}`))
			if err != nil {
				t.Fatal(err)
			}
			equalJSON(t, "info", jsonOf(test.want), text(t, string(result)))
		})
	}
	t.Run("in memory", func(t *testing.T) {
		s := newServer(t, server.Options{Session: session.Options{Principal: "ann"}})
		server.AddTool(s, "info", "", infoTool)
		c := connect(t, s, clientConfig{revision: "2025-06-18"})
		result, _ := c.call("tools/call", `{"name":"info"}`)
		equalJSON(t, "info", jsonOf(callInfo{Client: "client", Revision: "2025-06-18", Principal: "ann"}), text(t, result))
	})
	t.Run("middleware that replaces the _meta", func(t *testing.T) {
		replace := func(next session.Handler) session.Handler {
			return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
				copied := req.Clone()
				copied.Params = []byte(strings.Replace(string(req.Params), "t1", "t2", 1))
				return next(ctx, copied)
			}
		}
		s := newServer(t, server.Options{Session: session.Options{Hooks: session.Hooks{Receiving: []session.Middleware{replace}}}})
		server.AddTool(s, "info", "", infoTool)
		result, _ := connect(t, s, clientConfig{}).call("tools/call", `{"name":"info","_meta":{"trace":"t1"}}`)
		equalJSON(t, "info", jsonOf(callInfo{Client: "client", Revision: "2025-11-25", Trace: `"t2"`}), text(t, result))
	})
}

func jsonOf(v any) string { return string(must(json.Marshal(v))) }

// overHTTP is a connection whose messages arrive in HTTP requests with a header.
type overHTTP struct {
	transport.Conn
	header http.Header
}

func (c overHTTP) Read() (transport.Message, error) {
	m, err := c.Conn.Read()
	m.Context = transport.WithHTTP(context.Background(), c.header, "192.0.2.7:80")
	return m, err
}

// A task has the header of the request that created it until its handler runs again, and the client
// in each run.
func TestTaskDescribesRequestThatCreatedIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		runs := make(chan callInfo, 2)
		wait := func(ctx context.Context, c *server.Call, in struct{}) (callInfo, error) {
			time.Sleep(time.Second) // the request is over
			info, _ := infoTool(ctx, c, in)
			runs <- info
			<-ctx.Done()
			return info, ctx.Err()
		}
		add := func(s *server.Server) { server.AddTool(s, "info", "", wait, server.Durable()) }
		first, _ := withTasks(t, store, add)
		clientConn, serverConn := inmemory.Pair(inmemory.Options{})
		c := connectOver(t, first, clientConfig{}, clientConn, overHTTP{serverConn, http.Header{"Tenant": {"acme"}}})
		c.call("tools/call", `{"name":"info","task":{},"_meta":{"trace":"t1"}}`)
		want := callInfo{Client: "client", Revision: "2025-11-25", Trace: `"t1"`, Tenant: "acme", HTTP: true, Remote: "192.0.2.7", Principal: "ada"}
		equalJSON(t, "first run", jsonOf(want), jsonOf(<-runs))
		first.Close()

		second, _ := withTasks(t, store, add)
		want = callInfo{Client: "client", Revision: "2025-11-25", Trace: `"t1"`, Principal: "ada"}
		equalJSON(t, "run after a restart", jsonOf(want), jsonOf(<-runs))
		second.Close()
	})
}
