package mcpgo_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/embed"
	"github.com/mcpwire/mcpwire/runtime/embed/mcpgo"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
)

// attach adds tasks to s. All tools but those that o names can be tasks.
func attach(t *testing.T, s *server.MCPServer, o embed.Options) *mcpgo.Tasks {
	t.Helper()
	o.Tasks.Store, o.Tasks.Logger = memory.New(), slog.New(slog.DiscardHandler)
	tasks, err := mcpgo.Attach(s, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tasks.Close(); err != nil {
			t.Error(err)
		}
	})
	return tasks
}

// addAsk adds a tool that asks for a colour.
func addAsk(s *server.MCPServer) {
	s.AddTool(mcp.NewTool("ask"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		r, err := s.RequestElicitation(ctx, mcp.ElicitationRequest{Params: mcp.ElicitationParams{Message: "Which colour?", RequestedSchema: map[string]any{"type": "object"}}})
		if err != nil {
			return nil, err
		}
		return mcp.NewToolResultText(r.Content.(map[string]any)["colour"].(string)), nil
	})
}

func TestClientInProcess(t *testing.T) {
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			s := server.NewMCPServer("s", "1", server.WithToolCapabilities(true))
			addAsk(s)
			tasks := attach(t, s, embed.Options{Default: &embed.Tool{}})
			c := connect(t, tasks.InProcess(transport.WithElicitationHandler(answers{})), version, mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapability{}})
			h, err := c.CallTool(t.Context(), callOf("ask", nil))
			if err != nil {
				t.Fatal(err)
			}
			r, err := h.Result(t.Context())
			if textOf(r) != "blue" || err != nil {
				t.Errorf("got %v, %v", r, err)
			}
			if h.ID() == "" {
				t.Error("the call has not become a task")
			}
		})
	}
}

// A task may call another server in the same process, in a step or outside. The steps of that call
// do not belong to the task.
func TestStepsOfServerInSameProcess(t *testing.T) {
	other := server.NewMCPServer("other", "1", server.WithToolCapabilities(true))
	other.AddTool(mcp.NewTool("inner"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		key, err := embed.Step(ctx, "inner", func(ctx context.Context) (string, error) { return embed.IdempotencyKey(ctx), nil })
		return mcp.NewToolResultText(key), err
	})
	inner := connect(t, attach(t, other, embed.Options{}).InProcess(), "2025-11-25", mcp.ClientCapabilities{})
	call := func(ctx context.Context) (string, error) {
		r, err := inner.Client.CallTool(ctx, mcp.CallToolRequest{Params: mcp.CallToolParams{Name: "inner"}})
		return textOf(r), err
	}
	s := server.NewMCPServer("s", "1", server.WithToolCapabilities(true))
	s.AddTool(mcp.NewTool("outer"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		outside, err := call(ctx)
		if err != nil {
			return nil, err
		}
		inside, err := embed.Step(ctx, "outer", call)
		if err != nil || inside == "" || inside == outside {
			return nil, fmt.Errorf("keys %q and %q, %v", outside, inside, err)
		}
		return mcp.NewToolResultText("done"), nil
	})
	c := connect(t, attach(t, s, embed.Options{Default: new(embed.Durable())}).InProcess(), "2025-11-25", mcp.ClientCapabilities{})
	h, err := c.CallTool(t.Context(), callOf("outer", nil))
	if err != nil {
		t.Fatal(err)
	}
	if r, err := h.Result(t.Context()); textOf(r) != "done" || err != nil {
		t.Errorf("got %v, %v", textOf(r), err)
	}
}

// Without Attach, the SDK rejects plain calls of a tool with this Execution before its handler
// runs.
func TestAttachUsesExecutionOfTools(t *testing.T) {
	s := server.NewMCPServer("s", "1", server.WithToolCapabilities(true), server.WithTaskCapabilities(true, true, true))
	handler := func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText("done"), nil
	}
	s.AddTool(mcp.NewTool("optional", mcp.WithTaskSupport(mcp.TaskSupportOptional)), handler)
	s.AddTool(mcp.NewTool("required", mcp.WithTaskSupport(mcp.TaskSupportRequired)), handler)
	s.AddTool(mcp.NewTool("plain"), handler)
	tasks := attach(t, s, embed.Options{})
	c := connect(t, tasks.InProcess(), "2025-11-25", mcp.ClientCapabilities{})
	for _, name := range []string{"optional", "required"} {
		h, err := c.CallTool(t.Context(), callOf(name, nil))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if r, err := h.Result(t.Context()); textOf(r) != "done" || err != nil {
			t.Errorf("%s: got %v, %v", name, r, err)
		}
		if _, err := tasks.Manager().Get(t.Context(), "", h.ID(), nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := c.Client.CallTool(t.Context(), callOf("required", nil)); err == nil || !strings.Contains(err.Error(), "as a task") {
		t.Errorf("plain call of the required tool: %v", err)
	}
	list, err := c.Client.ListTools(t.Context(), mcp.ListToolsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range list.Tools {
		if tool.Name == "plain" && tool.Execution != nil {
			t.Errorf("plain has the execution %+v", tool.Execution)
		}
		if tool.Name != "plain" && (tool.Execution == nil || string(tool.Execution.TaskSupport) != tool.Name) {
			t.Errorf("%s has the execution %+v", tool.Name, tool.Execution)
		}
	}
}

func TestAttachKeepsHooks(t *testing.T) {
	initialized := 0
	hooks := new(server.Hooks)
	hooks.AddAfterInitialize(func(context.Context, any, *mcp.InitializeRequest, *mcp.InitializeResult) { initialized++ })
	s := server.NewMCPServer("s", "1", server.WithHooks(hooks))
	tasks := attach(t, s, embed.Options{})
	if s.GetHooks() != hooks || initialized != 0 {
		t.Errorf("the server has the hooks %p in place of %p, which have seen %d clients", s.GetHooks(), hooks, initialized)
	}
	connect(t, tasks.InProcess(), "2025-11-25", mcp.ClientCapabilities{})
	if initialized != 1 {
		t.Errorf("the hooks have seen %d clients", initialized)
	}
}

func TestAttachRejectsInvalidOptions(t *testing.T) {
	for name, o := range map[string]embed.Options{
		"no store": {},
		"recover":  {Tasks: task.Options{Store: memory.New(), Recovery: task.Recovery{Recover: func(task.Record) task.Work { return nil }}}},
	} {
		if _, err := mcpgo.Attach(server.NewMCPServer("s", "1"), o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := mcpgo.Attach(nil, embed.Options{Tasks: task.Options{Store: memory.New()}}); err == nil {
		t.Error("no server: no error")
	}
}

// web is a client over HTTP.
type web struct {
	*testing.T
	url, session string
}

func (w *web) send(method, body string, header ...string) *http.Response {
	w.Helper()
	r, err := http.NewRequestWithContext(w.Context(), method, w.url, strings.NewReader(body))
	if err != nil {
		w.Fatal(err)
	}
	r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	if w.session != "" {
		r.Header.Set("Mcp-Session-Id", w.session)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { response.Body.Close() })
	return response
}

func (w *web) post(body string, header ...string) (status int, text string) {
	w.Helper()
	response := w.send(http.MethodPost, body, header...)
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		w.Fatal(err)
	}
	return response.StatusCode, string(raw)
}

// open opens a session.
func (w *web) open() {
	w.Helper()
	response := w.send(http.MethodPost, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","clientInfo":{"name":"c","version":"1"},"capabilities":{"elicitation":{}}}}`)
	w.session = response.Header.Get("Mcp-Session-Id")
}

// newWeb returns a client of a server with the tool ask.
func newWeb(t *testing.T, o ...server.StreamableHTTPOption) *web {
	t.Helper()
	s := server.NewMCPServer("s", "1", server.WithToolCapabilities(true))
	addAsk(s)
	return serveWeb(t, s, attach(t, s, embed.Options{Default: &embed.Tool{}}), o...)
}

// serveWeb returns a client of a server with tasks.
func serveWeb(t *testing.T, s *server.MCPServer, tasks *mcpgo.Tasks, o ...server.StreamableHTTPOption) *web {
	t.Helper()
	h := server.NewStreamableHTTPServer(s, append(o, server.WithStateful(true))...)
	site := httptest.NewServer(tasks.Handler(h))
	t.Cleanup(site.Close)
	t.Cleanup(func() { h.CloseSessions(context.Background()) })
	return &web{T: t, url: site.URL}
}

// The checks of the SDK come before those of the engine.
func TestHandlerRejectsInvalidRequests(t *testing.T) {
	const get = `{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"x"}}`
	w := newWeb(t)
	w.open()
	if status, text := w.post(get); status != http.StatusOK || !strings.Contains(text, "-32602") {
		t.Errorf("unknown task: got status %d: %s", status, text)
	}
	if status, text := w.post(get, "Mcp-Session-Id", "unknown"); status != http.StatusNotFound {
		t.Errorf("unknown session: got status %d: %s", status, text)
	}
	if status, text := w.post(get, "Content-Type", "text/plain"); status != http.StatusBadRequest {
		t.Errorf("other content type: got status %d: %s", status, text)
	}
	modern := func(method, more string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + more + `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}`
	}
	for _, row := range []struct {
		what, body string
		header     []string
		status     int
		want       string
	}{
		{"unknown task", modern("tasks/get", `"taskId":"x",`), []string{"Mcp-Method", "tasks/get", "Mcp-Name", "x"}, 400, "-32602"},
		{"no header", modern("tasks/get", `"taskId":"x",`), nil, 400, "-32020"},
		{"other method", modern("tasks/get", `"taskId":"x",`), []string{"Mcp-Method", "tasks/cancel", "Mcp-Name", "x"}, 400, "-32020"},
		{"other name", modern("tasks/get", `"taskId":"x",`), []string{"Mcp-Method", "tasks/get", "Mcp-Name", "y"}, 400, "-32020"},
		{"other tool", modern("tools/call", `"name":"ask",`), []string{"Mcp-Method", "tools/call", "Mcp-Name", "y"}, 400, "-32020"},
		{"method of sessions", modern("tasks/result", `"taskId":"x",`), []string{"Mcp-Method", "tasks/result", "Mcp-Name", "x"}, 404, "-32601"},
	} {
		status, text := w.post(row.body, append(row.header, "Mcp-Protocol-Version", "2026-07-28")...)
		if status != row.status || !strings.Contains(text, row.want) {
			t.Errorf("%s: got status %d: %s", row.what, status, text)
		}
	}
}

// modernCall is a call of a tool by a client with the Tasks extension.
func modernCall(tool string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}`
}

// newPlain serves two tools whose calls do not become tasks within an hour: wait, with the given
// handler, and done.
func newPlain(t *testing.T, wait server.ToolHandlerFunc) *web {
	s := server.NewMCPServer("s", "1", server.WithToolCapabilities(true))
	s.AddTool(mcp.NewTool("wait"), wait)
	s.AddTool(mcp.NewTool("done"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText("done"), nil
	})
	tool := embed.Tool{}
	tool.After = time.Hour
	tasks := attach(t, s, embed.Options{Default: &tool})
	site := httptest.NewServer(tasks.Handler(server.NewStreamableHTTPServer(s)))
	t.Cleanup(site.Close)
	return &web{T: t, url: site.URL}
}

// Clients without sessions may use the same request ids.
func TestClientsWithoutSessionsDoNotCancelEachOther(t *testing.T) {
	started, cancelled := make(chan struct{}), make(chan struct{})
	w := newPlain(t, func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		close(started)
		<-cancelled
		return mcp.NewToolResultText("not cancelled"), ctx.Err()
	})
	responses := make(chan string, 1)
	go func() { // ends with the call
		defer close(responses)
		_, text := w.post(modernCall("wait"), "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "wait")
		responses <- text
	}()
	<-started
	w.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`,
		"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "notifications/cancelled")
	close(cancelled)
	if text := <-responses; !strings.Contains(text, "not cancelled") {
		t.Errorf("got %q", text)
	}
}

func TestModernResultsHaveServerInfo(t *testing.T) {
	w := newPlain(t, nil)
	_, text := w.post(modernCall("done"), "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "done")
	if want := `"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}`; !strings.Contains(text, want) {
		t.Errorf("got %s, want %s", text, want)
	}
}

// The SDK calls the hooks for errors in other goroutines if notifications of a handler are dropped.
func TestDroppedNotificationIsNotErrorOfCall(t *testing.T) {
	hooks := new(server.Hooks)
	failed, dropped := make(chan struct{}), make(chan struct{})
	hooks.AddOnError(func(_ context.Context, _ any, method mcp.MCPMethod, _ any, _ error) {
		if method != mcp.MethodToolsCall {
			<-failed
		}
	})
	s := server.NewMCPServer("s", "1", server.WithToolCapabilities(true), server.WithHooks(hooks))
	s.AddTool(mcp.NewTool("fail"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for s.SendNotificationToClient(ctx, "notifications/progress", nil) == nil {
		}
		return nil, &jsonrpc.Error{Code: 7, Message: "seven"}
	})
	tool := embed.Tool{}
	tool.After = time.Hour
	tasks := attach(t, s, embed.Options{Default: &tool})
	hooks.AddOnError(func(_ context.Context, _ any, method mcp.MCPMethod, _ any, _ error) {
		if method != mcp.MethodToolsCall {
			close(dropped)
			return
		}
		close(failed)
		<-dropped
	})
	if text := tasks.HandleMessage(t.Context(), json.RawMessage(modernCall("fail"))); !strings.Contains(string(text), `"code":7`) {
		t.Errorf("got %s", text)
	}
}

// The SDK records responses for clients that resume a stream. It must record the response that
// responseWriter sends, not the one that it replaces.
func TestResumedStreamHasResponse(t *testing.T) {
	s := server.NewMCPServer("s", "1", server.WithToolCapabilities(true))
	addAsk(s)
	tasks := attach(t, s, embed.Options{Default: &embed.Tool{}})
	w := serveWeb(t, s, tasks, server.WithEventStore(tasks.EventStore(server.NewInMemoryEventStore())))
	w.open()
	_, text := w.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask","arguments":{},"task":{}}}`)
	var created struct {
		Result struct{ Task struct{ TaskID string } }
	}
	for line := range strings.Lines(text) { // the only one, or those of events
		if data := strings.TrimPrefix(line, "data: "); strings.Contains(data, `"id":1`) {
			json.Unmarshal([]byte(data), &created)
		}
	}
	if created.Result.Task.TaskID == "" {
		t.Fatalf("got %s", text)
	}
	stream := w.send(http.MethodPost, `{"jsonrpc":"2.0","id":2,"method":"tasks/result","params":{"taskId":"`+created.Result.Task.TaskID+`"}}`)
	events := bufio.NewScanner(stream.Body)
	input, first := "", ""
	next := func() (id, data string) {
		for events.Scan() {
			switch name, value, _ := strings.Cut(events.Text(), ": "); {
			case name == "id":
				id = value
			case name == "data":
				return id, value
			}
		}
		t.Fatalf("the stream has ended: %v", events.Err())
		return "", ""
	}
	for !strings.Contains(input, "elicitation/create") { // status notifications may come first
		first, input = next()
	}
	if !strings.Contains(input, `"message":"Which colour?"`) || !strings.Contains(input, created.Result.Task.TaskID) {
		t.Errorf("got the input request %s", input)
	}
	var request struct{ ID json.RawMessage }
	if err := json.Unmarshal([]byte(input), &request); err != nil {
		t.Fatal(err)
	}
	if status, text := w.post(`{"jsonrpc":"2.0","id":` + string(request.ID) + `,"result":{"action":"accept","content":{"colour":"red"}}}`); status != http.StatusAccepted {
		t.Fatalf("got status %d: %s", status, text)
	}
	var result string
	for !strings.Contains(result, `"id":2`) {
		_, result = next()
	}
	if !strings.Contains(result, "red") {
		t.Errorf("got %s", result)
	}
	again := w.send(http.MethodGet, "", "Last-Event-Id", first)
	events = bufio.NewScanner(again.Body)
	var repeated string
	for !strings.Contains(repeated, `"id":2`) {
		_, repeated = next()
	}
	if repeated != result {
		t.Errorf("the resumed stream has %s in place of %s", repeated, result)
	}
}

// A tool that runs as a task unlocks another tool for the session of its client.
func TestTaskUnlocksTool(t *testing.T) {
	s := server.NewMCPServer("s", "1", server.WithToolCapabilities(true))
	s.AddTool(mcp.NewTool("unlock"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		session := server.ClientSessionFromContext(ctx).(server.SessionWithTools)
		session.SetSessionTools(map[string]server.ServerTool{"secret": {Tool: mcp.NewTool("secret")}})
		return mcp.NewToolResultText("unlocked"), nil
	})
	w := serveWeb(t, s, attach(t, s, embed.Options{Default: &embed.Tool{}}))
	c := connect(t, must(transport.NewStreamableHTTP(w.url)), "2025-11-25", mcp.ClientCapabilities{})
	h, err := c.CallTool(t.Context(), callOf("unlock", nil))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Result(t.Context()); err != nil || h.ID() == "" {
		t.Fatalf("task %q: %v", h.ID(), err)
	}
	list, err := c.Client.ListTools(t.Context(), mcp.ListToolsRequest{})
	if err != nil || !slices.ContainsFunc(list.Tools, func(tool mcp.Tool) bool { return tool.Name == "secret" }) {
		t.Errorf("got %v, %v", list, err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// stuckStore does not list its tasks before the context ends.
type stuckStore struct{ task.Store }

func (s stuckStore) Scan(ctx context.Context) iter.Seq2[task.Record, error] {
	return func(yield func(task.Record, error) bool) {
		<-ctx.Done()
		yield(task.Record{}, context.Cause(ctx))
	}
}

func TestPlainRequestsNeedNoStore(t *testing.T) {
	s := server.NewMCPServer("s", "1")
	tasks, err := mcpgo.Attach(s, embed.Options{Tasks: task.Options{Store: stuckStore{memory.New()}}, Default: &embed.Tool{}})
	if err != nil {
		t.Fatal(err)
	}
	defer tasks.Close()
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	r.Header.Set("Content-Type", "application/json")
	tasks.Handler(server.NewStreamableHTTPServer(s, server.WithStateLess(true))).ServeHTTP(w, r)
	if got := w.Body.String(); !strings.Contains(got, `"result":{}`) {
		t.Errorf("got %s", got)
	}
}
