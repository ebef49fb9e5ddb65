package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// A client that sends only modern requests receives answers and notifications, and no requests:
// none for input, and no pings.
//
// Proves M-RPC-11.
func TestServerSendsNoRequestsToModernClient(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newServer(t, server.Options{Session: session.Options{Timeouts: session.Timeouts{KeepAlive: time.Second}}})
		addTool(s, func(ctx context.Context, c *server.Call) (string, error) {
			c.Log(ctx, mcp.LoggingLevelError, "", "x")
			c.Progress(1, 2, "")
			err := c.RunAll(ctx,
				func(ctx context.Context) error { _, err := askName(ctx, c, "Who?"); return err },
				func(ctx context.Context) error { _, err := c.Sample(ctx, sampling()); return err },
				func(ctx context.Context) error { _, err := c.Roots(ctx); return err })
			server.Request[struct{}](ctx, c, "com.example/x", nil)
			return "", err
		})
		c := connectModern(t, s)
		meta := declares(everyInput) + asksFor("debug") + `"progressToken":1,`
		for range 3 {
			answer, before := c.call("tools/call", do, meta)
			if part(string(answer.Result), "resultType") != `"input_required"` || len(before) != 2 {
				t.Errorf("got %s after %q", answer.Result, before)
			}
			time.Sleep(time.Minute) // the client is idle
			for _, text := range append(before, c.take()...) {
				if part(text, "id") != "" {
					t.Errorf("the server has sent %s", text)
				}
			}
		}
	})
}

// Proves M-RPC-01, M-RPC-05.
func TestModernAnswersAreValidMessages(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newCatalog(t, server.Options{})
		server.AddTool(s, "text", "", func(context.Context, *server.Call, struct{}) (string, error) { return "a\xffb\u2028\n", nil })
		server.AddTool(s, "error", "", func(context.Context, *server.Call, struct{}) (string, error) {
			return "", &jsonrpc.Error{Code: 7, Message: "a\xffb", Data: json.RawMessage("{")}
		})
		server.AddTool(s, "panic", "", func(context.Context, *server.Call, struct{}) (string, error) { panic("\xff") })
		c := connectModern(t, s)
		for _, test := range []struct {
			method, params string
			kind           jsonrpc.Kind
		}{
			{"tools/call", `{"name":"text"}`, jsonrpc.KindResponse},
			{"tools/call", `{"name":"error"}`, jsonrpc.KindErrorResponse},
			{"tools/call", `{"name":"panic"}`, jsonrpc.KindErrorResponse},
			{"tools/call", `{"name":7}`, jsonrpc.KindErrorResponse},
			{"tools/list", `{"cursor":"\ud800"}`, jsonrpc.KindErrorResponse},
			{"unknown/\\ud800", "", jsonrpc.KindErrorResponse},
		} {
			c.start(test.method, test.params, "")
			got := c.take()
			if len(got) != 1 {
				t.Fatalf("%s %s: got %q", test.method, test.params, got)
			}
			m, err := jsonrpc.Parse([]byte(got[0])) // strict
			if err != nil || m.Kind != test.kind || m.ID.String() != fmt.Sprint(c.id) || codec.Valid([]byte(got[0])) != nil {
				t.Errorf("%s %s: got %q, %v", test.method, test.params, got[0], err)
			}
			if m.Kind == jsonrpc.KindErrorResponse && (part(got[0], "error", "code") == "" || !strings.HasPrefix(part(got[0], "error", "message"), `"`)) {
				t.Errorf("%s %s: got %q", test.method, test.params, got[0])
			}
		}
	})
}
