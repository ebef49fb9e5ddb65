package server_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// asksFor is the member of _meta with a log level.
func asksFor(level string) string {
	return fmt.Sprintf(`"io.modelcontextprotocol/logLevel":%q,`, level)
}

// Proves M-LOG-01, M-LOG-02, M-LOG-03 and M-SSE-01.
func TestModernCallLogsWhatItsRequestAsksFor(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newServer(t, server.Options{Features: server.Features{
			LogLevel: mcp.LoggingLevelDebug,
			Methods: map[string]session.Handler{
				"com.example/log": server.Method(func(ctx context.Context, c *server.Call, _ struct{}) (struct{}, error) {
					return struct{}{}, c.Log(ctx, mcp.LoggingLevelError, "", "own")
				}),
			},
		}})
		var late *server.Call
		server.AddTool(s, "log", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
			late = c
			for _, level := range []mcp.LoggingLevel{"debug", "info", "warning", "error"} {
				if err := c.Log(ctx, level, "x", "log "+string(level)); err != nil {
					return "", err
				}
			}
			c.Logger("slog").Warn("slog warning")
			c.Logger("slog").Info("slog info")
			s.Logger("all").Error("to sessions")
			s.SessionLogger(c.Session(), "one").Error("to a session")
			return "done", nil
		})
		c := connectModern(t, s)
		for _, test := range []struct{ meta, want string }{
			{"", ""},
			{asksFor("debug"), "log debug, log info, log warning, log error, slog warning, slog info"},
			{asksFor("warning"), "log warning, log error, slog warning"},
			{asksFor("emergency"), ""},
		} {
			_, before := c.call("tools/call", `{"name":"log"}`, test.meta)
			var got []string
			for _, n := range before {
				if part(n, "method") != `"notifications/message"` {
					t.Errorf("got %s", n)
				}
				data := part(n, "params", "data")
				if text := part(data, "msg"); text != "" {
					data = text
				}
				got = append(got, strings.Trim(data, `"`))
			}
			if strings.Join(got, ", ") != test.want {
				t.Errorf("%s: got %q, want %s", test.meta, got, test.want)
			}
			late.Log(t.Context(), mcp.LoggingLevelError, "", "late")
			if got := c.take(); len(got) > 0 {
				t.Errorf("after the answer: %q", got)
			}
		}
		for method, params := range map[string]string{"tools/call": `{"name":"log"}`, "tools/list": "", "com.example/log": "", "server/discover": "", "subscriptions/listen": `{"notifications":{}}`} {
			c.fails(method, params, asksFor("loud"), jsonrpc.CodeInvalidParams, "")
		}
		if _, before := c.call("com.example/log", "", asksFor("info")); len(before) != 1 {
			t.Errorf("own method: got %q", before)
		}
	})
}

func TestModernCallDoesNotLogIfLoggingIsNotDeclared(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newServer(t, server.Options{Features: server.Features{Capabilities: func(c *mcp.ServerCapabilities) { c.Logging = nil }}})
		server.AddTool(s, "log", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
			return "done", c.Log(ctx, mcp.LoggingLevelError, "", "no")
		})
		c := connectModern(t, s)
		if _, before := c.call("tools/call", `{"name":"log"}`, asksFor("debug")); len(before) > 0 {
			t.Errorf("got %q", before)
		}
	})
}

// Proves M-PROG-02, M-PROG-03.
func TestModernCallReportsProgress(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newServer(t, server.Options{})
		var late *server.Call
		server.AddTool(s, "work", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
			late = c
			c.Progress(1, 2, "half")
			if err := c.Progress(1, 2, "again"); !errors.Is(err, session.ErrNotIncreasing) {
				t.Errorf("got %v", err)
			}
			time.Sleep(time.Second)
			return "done", c.Progress(2, 2, "")
		})
		c := connectModern(t, s)
		call := func(meta string) (progress []string) {
			c.start("tools/call", `{"name":"work"}`, meta)
			time.Sleep(2 * time.Second)
			for _, text := range c.take() {
				if part(text, "id") == "" {
					progress = append(progress, part(text, "params"))
				}
			}
			return progress
		}
		for meta, want := range map[string]string{`"progressToken":"t",`: `"t"`, `"progressToken":7,`: `7`} {
			if diff := cmp.Diff([]string{
				`{"message":"half","progress":1,"progressToken":` + want + `,"total":2}`, `{"progress":2,"progressToken":` + want + `,"total":2}`,
			}, call(meta)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", meta, diff)
			}
		}
		if got := call(""); len(got) > 0 {
			t.Errorf("without a token: got %q", got)
		}
		late.Progress(3, 3, "late")
		if got := c.take(); len(got) > 0 {
			t.Errorf("after the answer: got %q", got)
		}
	})
}

// Proves M-TOOL-06, M-COMP-01.
func TestCallRateOfModernRequestsIsPerPrincipal(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newCatalog(t, server.Options{Limits: server.Limits{Calls: 1}})
		c := connectModern(t, s)
		accepted := func(principal string) (n int) {
			c.ctx = transport.WithPrincipal(t.Context(), principal)
			for range 5 {
				if answer, _ := c.call("tools/call", `{"name":"hi"}`, ""); answer.Error == nil {
					n++
				} else if !strings.Contains(answer.Error.Message, "too many calls") {
					t.Errorf("got %v", answer.Error)
				}
				if answer, _ := c.call("tools/list", "", ""); answer.Error != nil { // calls no function
					t.Error(answer.Error)
				}
			}
			return n
		}
		for _, step := range []struct {
			after     time.Duration
			principal string
			want      int
		}{{0, "ann", 2}, {0, "bob", 2}, {0, "ann", 0}, {time.Second, "ann", 1}, {1500 * time.Millisecond, "ann", 1}, {time.Second, "ann", 1}, {time.Minute, "ann", 2}, {0, "bob", 2}} {
			time.Sleep(step.after)
			if got := accepted(step.principal); got != step.want {
				t.Errorf("%v: %d calls of 5 accepted, want %d", step, got, step.want)
			}
		}
		c.ctx = transport.WithPrincipal(t.Context(), "bob")
		c.fails("completion/complete", requests["completion/complete"], "", modern.CodeOverloaded, "too many calls")
		// Limiters of very many principals take bounded memory: the last ones share a limiter.
		for i := range 11000 {
			c.ctx = transport.WithPrincipal(t.Context(), fmt.Sprint("p", i))
			c.start("tools/call", `{"name":"hi"}`, "")
			c.take() // the context is read with the request
		}
		if got := accepted("last"); got != 0 {
			t.Errorf("%d calls of the last principal accepted", got)
		}
	})
}

// Proves M-EXT-01, M-EXT-02, M-STATE-01.
func TestExtensionsAreThoseOfTheRequest(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newServer(t, server.Options{})
		must(0, s.Extend(server.Extension{ID: "com.example/x", Negotiated: true, Methods: map[string]session.Handler{
			"com.example/own": server.Method(func(_ context.Context, c *server.Call, p struct{ N int }) (map[string]any, error) {
				return map[string]any{"n": p.N, "roots": c.ClientCapabilities().Roots != nil, "name": c.ClientInfo().Name}, nil
			}),
		}}))
		c := connectModern(t, s)
		with := declares(`{"roots":{},"extensions":{"com.example/x":{}}}`) + `"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},`
		want := `{"n":3,"roots":true,"name":"c","resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":` + testInfo + `}}`
		for range 2 {
			equalJSON(t, "with the extension", want, c.result("com.example/own", `{"N":3}`, with))
			c.fails("com.example/own", `{"N":3}`, "", jsonrpc.CodeMethodNotFound, "com.example/own")
		}
		c.fails("com.example/own", `{"N":"x"}`, with, jsonrpc.CodeInvalidParams, "")
	})
}

// What needs a session fails clearly.
func TestSessionFeaturesFailInModernCalls(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newServer(t, server.Options{})
		errs := map[string]error{}
		server.AddTool(s, "all", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
			if c.Session() != nil {
				t.Error("there is a session")
			}
			form := &mcp.ElicitRequestFormParams{Message: "?"}
			_, errs["ElicitTask"] = c.ElicitTask(ctx, form)
			_, errs["SampleTask"] = c.SampleTask(ctx, &mcp.CreateMessageRequestParams{MaxTokens: 1, Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.SamplingContent{Items: []mcp.SamplingMessageContentBlock{&mcp.TextContent{Text: "?"}}}}}})
			_, errs["Request"] = server.Request[map[string]any](ctx, c, "com.example/x", nil)
			_, errs["Request with an option"] = server.Request[map[string]any](ctx, c, "com.example/x", nil, session.Timeout(time.Second))
			errs["Notify"] = c.Notify(ctx, "notifications/tasks/status", nil)
			return "done", nil
		})
		c := connectModern(t, s)
		c.result("tools/call", `{"name":"all"}`, declares(`{"elicitation":{},"sampling":{}}`))
		for name, err := range errs {
			if _, ok := errors.AsType[*session.CapabilityError](err); !ok || !strings.Contains(err.Error(), "2026-07-28") {
				t.Errorf("%s: got %v", name, err)
			}
		}
	})
}

// Requests of all principals share the state for modern requests: there must be none.
//
// Proves M-STATE-04 and M-ERA-01.
func TestModernRequestsLeaveNoState(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newCatalog(t, server.Options{Features: server.Features{Methods: ownMethods()}, Limits: server.Limits{Calls: 1000}, Session: session.Options{Limits: session.Limits{Requests: 10}}})
		server.AddTool(s, "all", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
			c.Roots(ctx)
			c.ElicitURL(ctx, "?", "https://example.com/", "an-id")
			c.RequireURL(ctx, "?", "https://example.com/", "another-id")
			c.Sample(ctx, &mcp.CreateMessageRequestParams{MaxTokens: 1, Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.SamplingContent{Items: []mcp.SamplingMessageContentBlock{&mcp.TextContent{Text: "?"}}}}}})
			c.Log(ctx, mcp.LoggingLevelError, "", "x")
			c.Progress(1, 0, "")
			return "done", nil
		})
		before := server.ModernState(s)
		c := connectModern(t, s)
		c.ctx = transport.WithPrincipal(t.Context(), "ann")
		meta := declares(`{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{"listChanged":true}}`) + asksFor("debug") + `"progressToken":1,`
		for range 20 {
			for method, params := range requests {
				c.result(method, params, meta)
			}
			c.call("tools/call", `{"name":"all"}`, meta)
		}
		c.listen(`"l"`, `{"toolsListChanged":true,"resourceSubscriptions":["x:one"]}`)
		c.write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"l"}}`)
		c.take()
		if after := server.ModernState(s); !reflect.DeepEqual(before, after) {
			t.Errorf("before: %s\nafter: %s", before, after)
		}
		for _, id := range []string{"an-id", "another-id"} {
			if principal, ok := s.ElicitationPrincipal(id); ok {
				t.Errorf("elicitation %s of %q is open", id, principal)
			}
		}
	})
}
