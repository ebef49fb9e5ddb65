package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	mcpgo "github.com/mark3labs/mcp-go/mcp"
	mcpgoserver "github.com/mark3labs/mcp-go/server"
	officialrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	official "github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestUpstream shows the behaviour of the official Go SDK and mcp-go that
// docs/reference/upstream.md describes. If a case fails, a release has changed the behaviour:
// update the page, and the limits of runtime/embed.
func TestUpstream(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/upstream.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		id   string // of the page
		name string
		test func(t *testing.T) string
		want string
	}{
		{"U2", "official server drops unknown members of params", dropsTask, `params: {"name":"render"}`},
		{"U4", "official client takes a task for an empty success", emptySuccess, `result: {"content":[]}, error: <nil>`},
		{"U5", "official client drops notifications of other methods", dropsNotification, "middleware saw: notifications/progress"},
		{"U6", "mcp-go rejects a plain call before middleware", rejectedBeforeMiddleware, "error -32601, middleware called: false"},
		{"U9", "mcp-go drops notifications when 100 are pending", dropsWhenFull, "sent: 100, then: notification channel queue is full - client may not be processing notifications fast enough"},
		{"U12", "official server does not compare Mcp-Name of other methods", ignoresName, "wrong name: 200, header mismatch of a handler: 200"},
		{"U13", "official handler with sessions rejects 2026-07-28", rejectsModern, "error -32022"},
		{"U14", "mcp-go lets clients without a session use any task", otherClientUsesTask, "status to another session: true, get: working, cancel: cancelled"},
		{"U14", "mcp-go without sessions shows all tasks to all clients", otherClientListsTasks, "listed: true, result: secret"},
		{"U15", "official server ends with a panic of a tool", endsWithPanic, "process ended: true"},
		{"U18", "official SDK allocates a buffer for each decoding", allocatesBuffers, "more than 128 KiB per call: true"},
		{"U16", "mcp-go ends a task with the request that created it", endsWithRequest, "handler: context canceled"},
	} {
		t.Run(c.id+" "+c.name, func(t *testing.T) {
			if !bytes.Contains(page, []byte("\n### "+c.id+": ")) {
				t.Errorf("docs/reference/upstream.md has no heading %s", c.id)
			}
			if got := c.test(t); got != c.want {
				t.Errorf("docs/reference/upstream.md, %s:\n got %s\nwant %s", c.id, got, c.want)
			}
		})
	}
}

// officialPipe connects the test, as the client, to an official server.
func officialPipe(t *testing.T, s *official.Server) official.Connection {
	t.Helper()
	ours, theirs := official.NewInMemoryTransports()
	if _, err := s.Connect(t.Context(), theirs, nil); err != nil {
		t.Fatal(err)
	}
	conn, err := ours.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	exchange(t, conn, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	exchange(t, conn, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return conn
}

// exchange sends a message and returns the response to it, if it is a request.
func exchange(t *testing.T, conn official.Connection, message string) *officialrpc.Response {
	t.Helper()
	m, err := officialrpc.DecodeMessage([]byte(message))
	if err == nil {
		err = conn.Write(t.Context(), m)
	}
	for err == nil {
		if r, ok := m.(*officialrpc.Request); !ok || !r.ID.IsValid() {
			return nil
		}
		var got officialrpc.Message
		if got, err = conn.Read(t.Context()); err == nil {
			if r, ok := got.(*officialrpc.Response); ok {
				return r
			}
		}
	}
	t.Fatal(err)
	return nil
}

func officialTool(name string, f official.ToolHandler) *official.Server {
	s := official.NewServer(&official.Implementation{Name: "s", Version: "1"}, nil)
	s.AddTool(&official.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, f)
	return s
}

func emptyResult(context.Context, *official.CallToolRequest) (*official.CallToolResult, error) {
	return &official.CallToolResult{Content: []official.Content{}}, nil
}

func dropsTask(t *testing.T) string {
	s := officialTool("render", emptyResult)
	seen := make(chan string, 1)
	s.AddReceivingMiddleware(func(next official.MethodHandler) official.MethodHandler {
		return func(ctx context.Context, method string, r official.Request) (official.Result, error) {
			if method == "tools/call" {
				b, _ := json.Marshal(r.GetParams())
				seen <- string(b)
			}
			return next(ctx, method, r)
		}
	})
	exchange(t, officialPipe(t, s), `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"render","task":{"ttl":1000}}}`)
	return "params: " + <-seen
}

// officialPeer connects an official client to the test, as the server. It responds to tools/call
// with a task, after serve.
func officialPeer(t *testing.T, c *official.Client, serve func(conn official.Connection)) *official.ClientSession {
	t.Helper()
	ours, theirs := official.NewInMemoryTransports()
	conn, err := ours.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			m, err := conn.Read(context.Background())
			if err != nil {
				return
			}
			if r, ok := m.(*officialrpc.Request); ok {
				switch r.Method {
				case "initialize":
					answer(conn, r.ID, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`)
				case "server/discover": // of a revision that this server does not have
					conn.Write(context.Background(), &officialrpc.Response{ID: r.ID, Error: &officialrpc.Error{Code: -32601, Message: "no such method"}})
				case "tools/call":
					serve(conn)
					answer(conn, r.ID, `{"task":{"taskId":"t","status":"working","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttl":null}}`)
				}
			}
		}
	}()
	cs, err := c.Connect(t.Context(), theirs, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cs.Close() })
	return cs
}

func answer(conn official.Connection, id officialrpc.ID, result string) {
	conn.Write(context.Background(), &officialrpc.Response{ID: id, Result: json.RawMessage(result)})
}

func emptySuccess(t *testing.T) string {
	c := official.NewClient(&official.Implementation{Name: "c", Version: "1"}, nil)
	result, err := officialPeer(t, c, func(official.Connection) {}).CallTool(t.Context(), &official.CallToolParams{Name: "render"})
	b, _ := json.Marshal(result)
	return fmt.Sprintf("result: %s, error: %v", b, err)
}

func dropsNotification(t *testing.T) string {
	c := official.NewClient(&official.Implementation{Name: "c", Version: "1"}, nil)
	seen := make(chan string, 2)
	c.AddReceivingMiddleware(func(next official.MethodHandler) official.MethodHandler {
		return func(ctx context.Context, method string, r official.Request) (official.Result, error) {
			seen <- method
			return next(ctx, method, r)
		}
	})
	cs := officialPeer(t, c, func(conn official.Connection) {
		for _, text := range []string{
			`{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"t","status":"working"}}`,
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`,
		} {
			m, err := officialrpc.DecodeMessage([]byte(text))
			if err == nil {
				err = conn.Write(context.Background(), m)
			}
			if err != nil {
				t.Error(err)
			}
		}
	})
	if _, err := cs.CallTool(t.Context(), &official.CallToolParams{Name: "render"}); err != nil {
		t.Fatal(err)
	}
	return "middleware saw: " + <-seen
}

func rejectedBeforeMiddleware(t *testing.T) string {
	called := false
	s := mcpgoserver.NewMCPServer("s", "1", mcpgoserver.WithToolHandlerMiddleware(func(next mcpgoserver.ToolHandlerFunc) mcpgoserver.ToolHandlerFunc {
		called = true
		return next
	}))
	s.AddTool(mcpgo.NewTool("render", mcpgo.WithTaskSupport(mcpgo.TaskSupportRequired)), func(context.Context, mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
		return mcpgo.NewToolResultText("done"), nil
	})
	m := s.HandleMessage(t.Context(), json.RawMessage(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"render"}}`))
	rejection, ok := m.(mcpgo.JSONRPCError)
	if !ok {
		return fmt.Sprintf("answer: %T", m)
	}
	return fmt.Sprintf("error %d, middleware called: %t", rejection.Error.Code, called)
}

// slowSession is a session of mcp-go whose client reads nothing.
type slowSession struct {
	queue chan mcpgo.JSONRPCNotification
}

func (s slowSession) Initialize()                                           {}
func (s slowSession) Initialized() bool                                     { return true }
func (s slowSession) NotificationChannel() chan<- mcpgo.JSONRPCNotification { return s.queue }
func (s slowSession) SessionID() string                                     { return "slow" }

func dropsWhenFull(t *testing.T) string {
	s := mcpgoserver.NewMCPServer("s", "1")
	if err := s.RegisterSession(t.Context(), slowSession{make(chan mcpgo.JSONRPCNotification, 100)}); err != nil { // sessions of mcp-go have the same size
		t.Fatal(err)
	}
	for n := 0; ; n++ {
		if err := s.SendNotificationToSpecificClient("slow", "notifications/tasks/status", nil); err != nil {
			return fmt.Sprintf("sent: %d, then: %v", n, err)
		}
	}
}

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`

// post sends a message and returns the status, the session id of the response, and its last
// message.
func post(t *testing.T, url, message string, header ...string) (status int, session, response string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(message))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header.Get("Mcp-Session-Id"), string(b)
}

type getParams struct {
	official.ParamsBase
	TaskID string `json:"taskId"`
}

type getResult struct{ official.ResultBase }

func ignoresName(t *testing.T) string {
	s := officialTool("render", emptyResult)
	if err := official.AddReceivingCustomMethod(s, "tasks/get", func(_ context.Context, _ *official.ServerSession, p *getParams) (*getResult, error) {
		if p.TaskID == "mismatch" {
			return nil, &officialrpc.Error{Code: -32020, Message: "header mismatch"}
		}
		return new(getResult), nil
	}); err != nil {
		t.Fatal(err)
	}
	at := httptest.NewServer(official.NewStreamableHTTPHandler(func(*http.Request) *official.Server { return s }, &official.StreamableHTTPOptions{Stateless: true}))
	defer at.Close()
	header := []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tasks/get", "Mcp-Name", "another"}
	wrong, _, _ := post(t, at.URL, `{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"t",`+modernMeta+`}}`, header...)
	mismatch, _, _ := post(t, at.URL, `{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"mismatch",`+modernMeta+`}}`, header...)
	return fmt.Sprintf("wrong name: %d, header mismatch of a handler: %d", wrong, mismatch)
}

func rejectsModern(t *testing.T) string {
	s := officialTool("render", emptyResult)
	at := httptest.NewServer(official.NewStreamableHTTPHandler(func(*http.Request) *official.Server { return s }, nil))
	defer at.Close()
	_, _, got := post(t, at.URL, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"render",`+modernMeta+`}}`,
		"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "render")
	var m struct{ Error struct{ Code int } }
	if err := json.Unmarshal([]byte(got), &m); err != nil {
		return got
	}
	return fmt.Sprintf("error %d", m.Error.Code)
}

// taskServer is a server of mcp-go with a tool that runs as a task until release is closed.
func taskServer(t *testing.T, o ...mcpgoserver.StreamableHTTPOption) (url string, release chan<- bool) {
	t.Helper()
	s := mcpgoserver.NewMCPServer("s", "1", mcpgoserver.WithTaskCapabilities(true, true, true))
	released := make(chan bool)
	s.AddTool(mcpgo.NewTool("render", mcpgo.WithTaskSupport(mcpgo.TaskSupportOptional)), func(context.Context, mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
		<-released // the context ends with the request
		return mcpgo.NewToolResultText("secret"), nil
	})
	at := httptest.NewServer(mcpgoserver.NewStreamableHTTPServer(s, o...))
	t.Cleanup(at.Close)
	return at.URL, released
}

// sessionUser is a client with a session of a server of mcp-go.
type sessionUser struct {
	t       *testing.T
	url, id string
}

func newSession(t *testing.T, url string) sessionUser {
	_, id, _ := post(t, url, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	u := sessionUser{t, url, id}
	post(t, url, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, u.header()...)
	return u
}

func (u sessionUser) header() []string {
	list := []string{"Mcp-Protocol-Version", "2025-11-25"}
	if u.id != "" {
		list = append(list, "Mcp-Session-Id", u.id)
	}
	return list
}

// call sends a request and returns the whole body of the response.
func (u sessionUser) call(method, params string) string {
	u.t.Helper()
	_, _, got := post(u.t, u.url, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`, u.header()...)
	return got
}

// create calls the tool as a task and returns the id of the task.
func (u sessionUser) create() (id string) {
	u.t.Helper()
	_, rest, _ := strings.Cut(u.call("tools/call", `{"name":"render","arguments":{},"task":{"ttl":600000}}`), `"taskId":"`)
	id, _, _ = strings.Cut(rest, `"`)
	return id
}

func otherClientUsesTask(t *testing.T) string {
	at, release := taskServer(t)
	first, second := newSession(t, at), newSession(t, at)
	id := first.create()
	modern := func(method string) (status string) {
		_, _, got := post(t, at, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{"taskId":"`+id+`",`+modernMeta+`}}`,
			"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method)
		var m struct{ Result struct{ Status string } }
		if err := json.Unmarshal([]byte(got), &m); err != nil {
			return got
		}
		return m.Result.Status
	}
	get, cancel := modern("tasks/get"), modern("tasks/cancel")
	notified := strings.Contains(second.call("ping", "{}"), id)
	close(release)
	return fmt.Sprintf("status to another session: %t, get: %s, cancel: %s", notified, get, cancel)
}

func otherClientListsTasks(t *testing.T) string {
	at, release := taskServer(t, mcpgoserver.WithStateLess(true))
	first, second := newSession(t, at), newSession(t, at)
	id := first.create()
	close(release)
	listed := strings.Contains(second.call("tasks/list", "{}"), id)
	_, rest, _ := strings.Cut(second.call("tasks/result", `{"taskId":"`+id+`"}`), `"text":"`)
	text, _, _ := strings.Cut(rest, `"`)
	return fmt.Sprintf("listed: %t, result: %s", listed, text)
}

const panicEnv = "MCPWIRE_INTEROP_PANIC"

func endsWithPanic(t *testing.T) string {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPanicOfOfficialTool$")
	cmd.Env = append(os.Environ(), panicEnv+"=1")
	out, err := cmd.CombinedOutput()
	return fmt.Sprintf("process ended: %t", err != nil && bytes.Contains(out, []byte("panic: of the tool")))
}

// TestPanicOfOfficialTool is the child process of TestUpstream.
func TestPanicOfOfficialTool(t *testing.T) {
	if os.Getenv(panicEnv) == "" {
		t.Skip("runs in a process of TestUpstream")
	}
	s := officialTool("render", func(context.Context, *official.CallToolRequest) (*official.CallToolResult, error) {
		panic("of the tool")
	})
	exchange(t, officialPipe(t, s), `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"render"}}`)
}

func allocatesBuffers(t *testing.T) string {
	ours, theirs := official.NewInMemoryTransports()
	if _, err := officialTool("render", emptyResult).Connect(t.Context(), theirs, nil); err != nil {
		t.Fatal(err)
	}
	cs, err := official.NewClient(&official.Implementation{Name: "c", Version: "1"}, nil).Connect(t.Context(), ours, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cs.Close() })
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const calls = 100
	for range calls {
		if _, err := cs.CallTool(t.Context(), &official.CallToolParams{Name: "render"}); err != nil {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	return fmt.Sprintf("more than 128 KiB per call: %t", after.TotalAlloc-before.TotalAlloc > calls<<17)
}

func endsWithRequest(t *testing.T) string {
	s := mcpgoserver.NewMCPServer("s", "1", mcpgoserver.WithTaskCapabilities(true, true, true))
	ended := make(chan error, 1)
	s.AddTool(mcpgo.NewTool("render", mcpgo.WithTaskSupport(mcpgo.TaskSupportOptional)), func(ctx context.Context, _ mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, ctx.Err()
	})
	at := httptest.NewServer(mcpgoserver.NewStreamableHTTPServer(s))
	defer at.Close()
	newSession(t, at.URL).create()
	return fmt.Sprintf("handler: %v", <-ended)
}
