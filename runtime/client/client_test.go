package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
)

// scripted is a server that answers from a table.
type scripted struct {
	*session.Session
	t  *testing.T
	mu sync.Mutex

	answers map[string]func(params string) (string, error) // result or error by method
	got     []string                                       // method and params of received messages
}

// everything returns all capabilities of a server except tasks.
func everything() mcp.ServerCapabilities {
	yes := json.RawMessage(`{}`)
	return mcp.ServerCapabilities{
		Completions: yes, Logging: yes,
		Prompts:   &mcp.ServerCapabilitiesPrompts{ListChanged: new(true)},
		Resources: &mcp.ServerCapabilitiesResources{ListChanged: new(true), Subscribe: new(true)},
		Tools:     &mcp.ServerCapabilitiesTools{ListChanged: new(true)},
	}
}

// connect returns a client and its server, which declares everything. It works in a synctest
// bubble.
func connect(t *testing.T, o *client.Options, answers map[string]func(string) (string, error)) (*client.Client, *scripted) {
	return connectAs(t, everything(), o, session.Options{}, answers)
}

func connectAs(t *testing.T, capabilities mcp.ServerCapabilities, o *client.Options, cfg session.Options, answers map[string]func(string) (string, error)) (*client.Client, *scripted) {
	t.Helper()
	a, b := inmemory.Pair(inmemory.Options{})
	s := &scripted{t: t, answers: answers}
	if cfg.Handler == nil {
		cfg.Handler = s.handle
	}
	s.Session = session.Serve(b, &mcp.InitializeResult{
		Capabilities: capabilities, ServerInfo: mcp.Implementation{Name: "scripted", Version: "1"}, Instructions: new("be kind"),
	}, &cfg)
	t.Cleanup(func() { s.Close() })
	c, err := client.Connect(t.Context(), a, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := s.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c, s
}

func (s *scripted) handle(ctx context.Context, req *session.Request) (codec.Encoder, error) {
	if req.Method == "notifications/initialized" {
		return nil, nil
	}
	s.mu.Lock()
	s.got = append(s.got, fmt.Sprintf("%s %s", req.Method, string(req.Params)))
	answer, ok := s.answers[req.Method]
	s.mu.Unlock()
	if req.IsNotification() {
		return nil, nil
	}
	if !ok {
		return nil, jsonrpc.MethodNotFound(req.Method)
	}
	text, err := answer(string(req.Params))
	return session.Raw(text), err
}

// took checks the messages received since the last call.
func (s *scripted) took(want ...string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if diff := cmp.Diff(want, s.got); diff != "" {
		s.t.Errorf("messages received by the server (-want +got):\n%s", diff)
	}
	s.got = nil
}

// always returns an answer that is always the same result.
func always(text string) func(string) (string, error) {
	return func(string) (string, error) { return text, nil }
}

// Proves SDK-17, SDK-21.
func TestTypedCallsOfEveryFeature(t *testing.T) {
	c, s := connect(t, nil, map[string]func(string) (string, error){
		"resources/read":        always(`{"contents":[{"uri":"x:a","text":"A"}]}`),
		"resources/subscribe":   always(`{}`),
		"resources/unsubscribe": always(`{}`),
		"prompts/get":           always(`{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}]}`),
		"completion/complete":   always(`{"completion":{"values":["Oslo"],"hasMore":false}}`),
		"logging/setLevel":      always(`{}`),
		"tools/call":            always(`{"content":[],"structuredContent":{"sum":3}}`),
		"x/own":                 always(`{"own":true}`),
	})
	ctx := t.Context()
	if got := c.Server(); got.ServerInfo.Name != "scripted" || *got.Instructions != "be kind" || c.Revision() != mcp.Revision20251125 {
		t.Errorf("the server is %v, revision %s", got, c.Revision())
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	check(c.Ping(ctx))
	read, err := c.ReadResource(ctx, "x:a")
	if err != nil || read.Contents[0].(*mcp.TextResourceContents).Text != "A" {
		t.Errorf("got %v, %v", read, err)
	}
	check(c.Subscribe(ctx, "x:a"))
	check(c.Unsubscribe(ctx, "x:a"))
	prompt, err := c.GetPrompt(ctx, "greet", map[string]string{"who": "me"})
	if err != nil || prompt.Messages[0].Content.(*mcp.TextContent).Text != "hi" {
		t.Errorf("got %v, %v", prompt, err)
	}
	found, err := c.Complete(ctx, &mcp.PromptReference{Name: "greet"}, "city", "O", map[string]string{"country": "no"})
	if err != nil || !cmp.Equal(found.Values, []string{"Oslo"}) {
		t.Errorf("got %v, %v", found, err)
	}
	check(c.SetLogLevel(ctx, mcp.LoggingLevelWarning))
	result, err := c.CallTool(ctx, "add", struct {
		A int `json:"a"`
		B int `json:"b"`
	}{1, 2}, client.Meta("com.example/trace", "t1"))
	check(err)
	if out, err := client.Output[struct {
		Sum int `json:"sum"`
	}](result); err != nil || out.Sum != 3 {
		t.Errorf("got %v, %v", out, err)
	}
	raw, err := c.Session().Call(ctx, "x/own", nil)
	if err != nil || string(raw) != `{"own":true}` {
		t.Errorf("got %s, %v", raw, err)
	}
	s.took(
		`resources/read {"uri":"x:a"}`,
		`resources/subscribe {"uri":"x:a"}`,
		`resources/unsubscribe {"uri":"x:a"}`,
		`prompts/get {"arguments":{"who":"me"},"name":"greet"}`,
		`completion/complete {"argument":{"name":"city","value":"O"},"context":{"arguments":{"country":"no"}},"ref":{"type":"ref/prompt","name":"greet"}}`,
		`logging/setLevel {"level":"warning"}`,
		`tools/call {"_meta":{"com.example/trace":"t1"},"arguments":{"a":1,"b":2},"name":"add"}`,
		`x/own `,
	)
	check(c.Shutdown(ctx))
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
}

// Proves META-01, META-02, META-03, M-META-09.
func TestForeignMetadataIsPreserved(t *testing.T) {
	const meta = `{"com.example/odd":[1,{"x":null}],"io.modelcontextprotocol/later":7,"progressToken":{"odd":true}}`
	c, s := connect(t, nil, map[string]func(string) (string, error){
		"tools/call": always(`{"content":[],"_meta":` + meta + `}`),
	})
	result, err := c.CallTool(t.Context(), "x", nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := codec.Marshal(result.Meta)
	if err != nil || string(text) != meta {
		t.Errorf("got %s, %v", text, err)
	}
	s.took(`tools/call {"name":"x"}`)
	for _, name := range []string{"1a/x", "io.modelcontextprotocol/x", "com.mcp/x"} {
		if _, err := c.CallTool(t.Context(), "x", nil, client.Meta(name, 1)); err == nil {
			t.Errorf("_meta key %q was sent", name)
		}
	}
	if _, err := c.CallTool(t.Context(), "x", []int{1}); err == nil {
		t.Error("a list was sent as arguments")
	}
	s.took()
}

// recorder is a host that records its notifications.
type recorder struct {
	mcp.UnimplementedClientNotificationHandler
	events chan string
}

func (n recorder) ResourceUpdated(_ context.Context, p *mcp.ResourceUpdatedNotificationParams) error {
	n.events <- "updated " + p.URI
	return nil
}

func (n recorder) LoggingMessage(_ context.Context, p *mcp.LoggingMessageNotificationParams) error {
	n.events <- fmt.Sprintf("%s %s", p.Level, p.Data)
	return nil
}

func (n recorder) ToolListChanged(context.Context, *mcp.NotificationParams) error {
	n.events <- "tools"
	return nil
}

func (n recorder) PromptListChanged(context.Context, *mcp.NotificationParams) error {
	n.events <- "prompts"
	return nil
}

func (n recorder) ResourceListChanged(context.Context, *mcp.NotificationParams) error {
	n.events <- "resources"
	return nil
}

func (n recorder) ElicitationComplete(_ context.Context, p *mcp.ElicitationCompleteNotificationParams) error {
	n.events <- "complete " + p.ElicitationID
	return nil
}

// Proves SDK-17.
func TestHostReceivesNotifications(t *testing.T) {
	n := recorder{events: make(chan string, 10)}
	own := make(chan string, 1)
	_, s := connect(t, &client.Options{Notifications: n, Session: session.Options{
		Handler: func(_ context.Context, req *session.Request) (codec.Encoder, error) {
			own <- req.Method
			return nil, nil
		},
	}}, nil)
	for _, m := range []struct{ method, params, want string }{
		{"notifications/resources/updated", `{"uri":"x:a"}`, "updated x:a"},
		{"notifications/message", `{"level":"error","data":{"x":1}}`, `error {"x":1}`},
		{"notifications/tools/list_changed", `{}`, "tools"},
		{"notifications/prompts/list_changed", `{}`, "prompts"},
		{"notifications/resources/list_changed", `{}`, "resources"},
	} {
		if err := s.Notify(t.Context(), m.method, session.Raw(m.params)); err != nil {
			t.Fatal(err)
		}
		if got := <-n.events; got != m.want {
			t.Errorf("the host received %q, want %q", got, m.want)
		}
	}
	if _, err := s.Call(t.Context(), "x/own", nil); err != nil || <-own != "x/own" {
		t.Errorf("custom method: %v", err)
	}
}

func TestNotificationsAreDecodedOnlyForHost(t *testing.T) {
	n := recorder{events: make(chan string, 10)}
	for name, test := range map[string]struct {
		host mcp.ClientNotificationHandler
		warn bool
	}{
		"with a host":    {n, true},
		"without a host": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				_, s := connect(t, &client.Options{Notifications: test.host, Session: session.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}}, nil)
				if err := s.Notify(t.Context(), "notifications/message", session.Raw(`{"level":1}`)); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if got := strings.Contains(log.String(), "notification failed"); got != test.warn {
					t.Errorf("warning of invalid params: %v, want %v; log: %s", got, test.warn, &log)
				}
			})
		})
	}
}

func TestCallToolRejectsArgumentsThatAreNotAnObject(t *testing.T) {
	c, s := connect(t, nil, map[string]func(string) (string, error){"tools/call": always(`{"content":[]}`)})
	for _, arguments := range []any{struct{ A int }{1}, map[string]int{"A": 1}, json.RawMessage("\n{\"A\":1}")} {
		if _, err := c.CallTool(t.Context(), "x", arguments); err != nil {
			t.Fatalf("%T: %v", arguments, err)
		}
		s.took(`tools/call {"arguments":{"A":1},"name":"x"}`)
	}
	for _, arguments := range []any{5, []int{1}, func() {}, json.RawMessage(nil), json.RawMessage(`[1]`), json.RawMessage(`{"A":`)} {
		if _, err := c.CallTool(t.Context(), "x", arguments); err == nil {
			t.Errorf("%T %v was sent", arguments, arguments)
		}
	}
	s.took()
}

// Proves SDK-05.
func TestTitlePrecedence(t *testing.T) {
	annotated := &mcp.ToolAnnotations{Title: new("Annotated")}
	for _, test := range []struct {
		tool *mcp.Tool
		want string
	}{
		{&mcp.Tool{Name: "name", Title: new("Title"), Annotations: annotated}, "Title"},
		{&mcp.Tool{Name: "name", Title: new(""), Annotations: annotated}, "Annotated"},
		{&mcp.Tool{Name: "name", Annotations: annotated}, "Annotated"},
		{&mcp.Tool{Name: "name", Annotations: &mcp.ToolAnnotations{}}, "name"},
		{&mcp.Tool{Name: "name"}, "name"},
	} {
		if got := client.Title(test.tool); got != test.want {
			t.Errorf("got %s, want %s", got, test.want)
		}
	}
	title := new("Title")
	for want, titles := range map[string][]string{
		"Title": {client.Title(&mcp.Implementation{Name: "name", Title: title}), client.Title(&mcp.Resource{Name: "name", Title: title}), client.Title(&mcp.ResourceTemplate{Name: "name", Title: title}),
			client.Title(&mcp.ResourceLink{Name: "name", Title: title}), client.Title(&mcp.Prompt{Name: "name", Title: title}), client.Title(&mcp.PromptArgument{Name: "name", Title: title})},
		"name": {client.Title(&mcp.Implementation{Name: "name"}), client.Title(&mcp.Prompt{Name: "name", Title: new("")})},
	} {
		for i, got := range titles {
			if got != want {
				t.Errorf("item %d: got %s, want %s", i, got, want)
			}
		}
	}
}

// Annotations of a tool do not change how it is called: a failed call is not repeated even if the
// tool claims to be idempotent.
//
// Proves TOOL-11.
func TestCallToolIgnoresAnnotations(t *testing.T) {
	for _, code := range []int64{session.CodeOverloaded, jsonrpc.CodeInternalError, jsonrpc.CodeMethodNotFound} {
		c, s := connect(t, nil, map[string]func(string) (string, error){
			"tools/list": always(`{"tools":[{"name":"wipe","inputSchema":{"type":"object"},` +
				`"annotations":{"readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false}}]}`),
			"tools/call": func(string) (string, error) { return "", &jsonrpc.Error{Code: code, Message: "no"} },
		})
		names(t, c.Tools(t.Context()), toolName)
		if _, err := c.CallTool(t.Context(), "wipe", nil); jsonrpc.CodeOf(err) != code {
			t.Errorf("got %v", err)
		}
		s.took(`tools/list {}`, `tools/call {"name":"wipe"}`)
	}
}

// In a session with an older revision, the client neither uses nor serves newer features, although
// it declares them.
//
// Proves LIFE-12.
func TestClientHonoursOlderRevision(t *testing.T) {
	declared := everything()
	declared.Tasks = receiver.ServerCapabilities(true) // has no meaning in the older revision
	c, s := connectAs(t, declared, &client.Options{
		Input: client.Input{
			SampleTools: true,
			Fill:        func(context.Context, *client.FormRequest) (*mcp.ElicitResult, error) { return client.Decline(), nil },
			OpenURL: func(context.Context, *client.URLRequest) (mcp.ElicitAction, error) {
				t.Error("the user was shown a URL")
				return mcp.ElicitActionAccept, nil
			},
			Sample: func(_ context.Context, r *client.SampleRequest) (*mcp.CreateMessageResult, error) {
				if r.Tools != nil {
					t.Error("the model was given tools")
				}
				return nil, client.ErrRefused
			},
		},
	}, session.Options{Revisions: []mcp.Revision{mcp.Revision20250618}}, nil)
	if c.Revision() != mcp.Revision20250618 {
		t.Fatalf("the revision is %s", c.Revision())
	}
	if _, err := c.StartTool(t.Context(), "x", nil); !errors.As(err, new(*session.CapabilityError)) {
		t.Errorf("StartTool: got %v, want a CapabilityError", err)
	}
	for _, err := range c.Tasks(t.Context()) {
		if !errors.As(err, new(*session.CapabilityError)) {
			t.Errorf("Tasks: got %v, want a CapabilityError", err)
		}
	}
	if _, err := c.CallTool(t.Context(), "x", nil); jsonrpc.CodeOf(err) != jsonrpc.CodeMethodNotFound {
		t.Errorf("got %v", err)
	}
	s.took(`tools/call {"name":"x"}`)
	for method, params := range map[string]string{
		"elicitation/create":     `{"mode":"url","message":"m","elicitationId":"1","url":"https://x.example/"}`,
		"sampling/createMessage": `{"maxTokens":9,"tools":[{"name":"t","inputSchema":{"type":"object"}}],"messages":[]}`,
		"tasks/get":              `{"taskId":"1"}`,
	} {
		if result, err := s.Call(t.Context(), method, session.Raw(params)); err == nil {
			t.Errorf("%s succeeded with %s", method, result)
		}
	}
}
