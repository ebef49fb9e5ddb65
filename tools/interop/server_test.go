package interop

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/internal/sessiontest"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// serve serves tools like those of typescript/server.mjs.
func serve(conn transport.Conn) error { return tools{}.serve(conn) }

func (t tools) serve(conn transport.Conn) error {
	s := session.Serve(conn, &mcp.InitializeResult{
		Capabilities: mcp.ServerCapabilities{Tools: &mcp.ServerCapabilitiesTools{}, Logging: []byte(`{}`)},
		ServerInfo:   mcp.Implementation{Name: "mcpwire", Version: "1"},
		Instructions: new("Be nice."),
	}, &session.Options{Limits: session.Limits{ProgressInterval: -1}, Handler: sessiontest.ServerHandler(t, nil)})
	return s.Wait()
}

type tools struct {
	mcp.UnimplementedServerHandler
	stopped chan<- error // receives the reason why a hanging call ended; may be nil
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.ContentBlock{&mcp.TextContent{Text: s}}}
}

// settle waits until the peer has handled notifications. The SDK handles a response at once and a
// notification a little later, and so loses progress that arrives together with the response.
func settle(ctx context.Context, s *session.Session) error { return s.Ping(ctx) }

// names are the tools that every client must list.
var names = []string{"echo", "progress", "ask", "elicit", "hang"}

func (tools) ListTools(context.Context, *mcp.PaginatedRequestParams) (*mcp.ListToolsResult, error) {
	var list []mcp.Tool
	for _, name := range names {
		list = append(list, mcp.Tool{Name: name})
	}
	return &mcp.ListToolsResult{Tools: list}, nil
}

func (t tools) CallTool(ctx context.Context, p *mcp.CallToolRequestParams) (mcp.CallToolOutcome, error) {
	req, _ := session.FromContext(ctx)
	client := mcp.ToClient{Caller: req.Session}
	log := func(ctx context.Context, text string) error {
		return mcp.NotifyClient{Notifier: req.Session}.LoggingMessage(ctx, &mcp.LoggingMessageNotificationParams{Level: "info", Data: []byte(`"` + text + `"`)})
	}
	switch p.Name {
	case "echo":
		return text(string(p.Arguments)), nil
	case "fail":
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "no luck", Data: []byte(`{"a":1}`)}
	case "panic":
		panic("in a tool")
	case "progress":
		peer, _ := session.PeerFrom(ctx)
		for i := 1; i <= 3; i++ {
			err := peer.Report(session.Progress{Value: float64(i), Total: new(3.0), Message: "step " + string(rune('0'+i))})
			if err != nil {
				return nil, err
			}
		}
		return text("done"), settle(ctx, req.Session)
	case "hang":
		if err := log(ctx, "hanging"); err != nil {
			return nil, err
		}
		fallthrough
	case "timeout":
		<-ctx.Done()
		if t.stopped != nil {
			t.stopped <- context.Cause(ctx)
		}
		if errors.Is(context.Cause(ctx), session.ErrCancelled) {
			log(context.WithoutCancel(ctx), "cancelled")
		}
		return text("too late"), nil
	case "ask":
		var progress []string
		asking := mcp.ToClient{Caller: req.Session.With(session.OnProgress(func(p session.Progress) {
			progress = append(progress, string(rune('0'+int(p.Value))))
		}))}
		outcome, err := asking.CreateMessage(ctx, &mcp.CreateMessageRequestParams{Messages: []mcp.SamplingMessage{}, MaxTokens: 10})
		if err != nil {
			return nil, err
		}
		content := outcome.(*mcp.CreateMessageResult).Content.Items[0].(*mcp.TextContent)
		return text(content.Text + " after " + strings.Join(progress, ",")), nil
	case "elicit":
		return askColour(ctx, client)
	case "give up":
		asking, cancel := context.WithCancel(ctx)
		defer cancel()
		requested := make(chan bool, 1)
		peer := mcp.ToClient{Caller: req.Session.With(session.OnProgress(func(session.Progress) { requested <- true }))}
		done := make(chan error, 1)
		go func() { // ends with the context
			_, err := peer.CreateMessage(asking, &mcp.CreateMessageRequestParams{Messages: []mcp.SamplingMessage{}, MaxTokens: 1})
			done <- err
		}()
		select {
		case <-requested:
		case <-ctx.Done():
		}
		cancel()
		if err := <-done; err != context.Canceled {
			return text("was answered"), nil
		}
		return text("gave up"), settle(ctx, req.Session)
	}
	return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "no such tool"}
}

func TestTypeScriptClientWithServer(t *testing.T) {
	needSDK(t)
	want := strings.Join([]string{
		`server mcpwire Be nice.`,
		`pong`,
		`echo {"text":"ä€𝄞` + "\u2028" + `","n":1.5}`,
		`fail error -32602 {"a":1}`,
		`panic error -32603 null`,
		`no such tool error -32602 null`,
		`prompts MCP error -32601: method not found: prompts/list`,
		`progress done`,
		`progress [[1,3,"step 1"],[2,3,"step 2"],[3,3,"step 3"]]`,
		`log hanging`,
		`hang error -32001 null`,
		`log cancelled`,
		`timeout error -32001 {"timeout":100}`,
		`log cancelled`,
		`ask forty-two after 1,2,3`,
		`question cancelled context canceled`,
		`give up gave up`,
		`done`,
		``,
	}, "\n")
	overBoth(t, "client.mjs", "plain", serve, want)
}

// overBoth runs a script with one of our servers, as a child process and over HTTP, and compares
// its output.
func overBoth(t *testing.T, script, server string, serve func(transport.Conn) error, want string) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"stdio", "HTTP"} {
		t.Run(kind, func(t *testing.T) {
			target := self
			if kind == "HTTP" {
				target = listen(t, serve)
			}
			cmd := exec.CommandContext(t.Context(), "node", filepath.Join("typescript", script), target)
			cmd.Env = append(os.Environ(), childEnv+"="+server)
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			if err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(want, string(out)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// listen serves sessions on the loopback address until the test ends, and returns the URL. By then,
// the client must have ended every session.
func listen(t *testing.T, serve func(transport.Conn) error) string {
	var sessions sync.WaitGroup
	handler := streamable.NewHandler(func(_ *http.Request, conn transport.Conn) {
		sessions.Go(func() { // ends with the session
			if err := serve(conn); err != nil {
				t.Error(err)
			}
		})
	}, streamable.HandlerOptions{})
	server := httptest.NewServer(handler)
	t.Cleanup(func() {
		sessions.Wait()
		if err := handler.Close(); err != nil {
			t.Error(err)
		}
		server.Close()
	})
	return server.URL
}
