package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
)

// post sends a modern request to a handler, with an Mcp-Name unless name is "-".
func post(h http.Handler, method, name, params, capabilities string) *httptest.ResponseRecorder {
	return postAs(h, method, method, name, params, capabilities)
}

// postAs is post with another Mcp-Method.
func postAs(h http.Handler, named, method, name, params, capabilities string) *httptest.ResponseRecorder {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",
		"io.modelcontextprotocol/clientCapabilities":%s},%s`, method, capabilities, strings.TrimPrefix(params, "{")) + "}"
	r := httptest.NewRequest("POST", "http://localhost/", strings.NewReader(body))
	for name, value := range map[string]string{
		"Accept": "application/json, text/event-stream", "Content-Type": "application/json", "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": named,
	} {
		r.Header.Set(name, value)
	}
	if name != "-" {
		r.Header.Set("Mcp-Name", name)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// extensionOnly declares the Tasks extension.
const extensionOnly = `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`

// Proves XTASK-09, XTASK-11, XTASK-51, XTASK-52 and XTASK-56.
func TestExtensionOverHTTP(t *testing.T) {
	s, _ := withTasks(t, memory.New(), taskTools)
	h := must(s.Handler(nil))
	defer h.Close()
	created := post(h, "tools/call", "hi", `{"name":"hi"}`, extensionOnly)
	id := strings.Trim(part(created.Body.String(), "result", "taskId"), `"`)
	if id == "" {
		t.Fatalf("got %s", created.Body)
	}
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		params := `{"taskId":"` + id + `","inputResponses":{}}`
		for _, row := range []struct {
			named, name, params, capabilities string
			status                            int
			code                              string
		}{
			{method, id, params, extensionOnly, 200, ""},
			{method, "=?base64?" + "dW5rbm93bg==" + "?=", `{"taskId":"unknown","inputResponses":{}}`, extensionOnly, 200, "-32602"},
			{method, "other", params, extensionOnly, 400, "-32020"},
			{method, "-", params, extensionOnly, 400, "-32020"},
			{"tools/call", id, params, extensionOnly, 400, "-32020"},
			{method, id, params, `{}`, 400, "-32021"},
			{method, "gate-test", `{"taskId":"gate-test","inputResponses":{}}`, `{}`, 400, "-32021"},
		} {
			got := postAs(h, row.named, method, row.name, row.params, row.capabilities)
			if code := part(got.Body.String(), "error", "code"); got.Code != row.status || code != row.code {
				t.Errorf("%s with %+v: got status %d: %s", method, row, got.Code, got.Body)
			}
		}
	}
	if got := postAs(h, "tasks/get", "tools/call", "hi", `{"name":"hi"}`, extensionOnly); got.Code != 400 || part(got.Body.String(), "error", "code") != "-32020" {
		t.Errorf("got status %d: %s", got.Code, got.Body)
	}
	if got := post(h, "tools/call", "only", `{"name":"only"}`, `{}`); got.Code != 400 || part(got.Body.String(), "error", "code") != "-32021" {
		t.Errorf("got status %d: %s", got.Code, got.Body)
	}
	for _, method := range []string{"tasks/result", "tasks/list"} {
		if got := post(h, method, id, `{"taskId":"`+id+`"}`, extensionOnly); got.Code != 404 || part(got.Body.String(), "error", "code") != "-32601" {
			t.Errorf("%s: got status %d: %s", method, got.Code, got.Body)
		}
	}
}

// One definition of a tool, one server and one store serve plain calls and tasks of both eras, over
// each transport. Proves XTASK-62.
func TestOneToolServesCallsAndTasksOfBothEras(t *testing.T) {
	s, m := withTasks(t, memory.New(), func(s *server.Server) {
		server.AddTool(s, "who", "", func(ctx context.Context, c *server.Call, in struct {
			Name string `json:"name"`
		}) (string, error) {
			_, isTask := c.Task()
			return fmt.Sprintf("%s, %s, as a task: %v", in.Name, c.Revision(), isTask), nil
		}, server.Tasks(receiver.Support{After: -1}))
	})
	h := must(s.Handler(nil))
	defer h.Close()
	web := httptest.NewServer(h)
	defer web.Close()
	sessions := &client.Options{Session: session.Options{Revisions: session.Revisions()}}
	over, err := client.Dial(t.Context(), web.URL, sessions)
	if err != nil {
		t.Fatal(err)
	}
	defer over.Close()
	near, far := inmemory.Pair(inmemory.Options{})
	if _, err := s.Serve(far); err != nil {
		t.Fatal(err)
	}
	inMemory, err := client.Connect(t.Context(), near, sessions)
	if err != nil {
		t.Fatal(err)
	}
	defer inMemory.Close()
	check := func(way, result string, revision mcp.Revision, isTask bool) {
		t.Helper()
		if got, want := text(t, result), fmt.Sprintf("Ada, %s, as a task: %v", revision, isTask); got != want {
			t.Errorf("%s: got %q, want %q", way, got, want)
		}
	}
	arguments := map[string]string{"name": "Ada"}
	for way, c := range map[string]*client.Client{"HTTP": over, "memory": inMemory} {
		plain, err := c.CallTool(t.Context(), "who", arguments)
		if err != nil {
			t.Fatal(err)
		}
		check(way+", plain call in a session", string(must(plain.MarshalJSON())), "2025-11-25", false)
		handle, err := c.StartTool(t.Context(), "who", arguments)
		if err != nil {
			t.Fatal(err)
		}
		result, err := handle.Result(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		check(way+", task of a session", string(must(result.MarshalJSON())), "2025-11-25", true)
	}
	rounds := connectRounds(t, s)
	overHTTP := func(method, name, params, capabilities string) string {
		return part(post(h, method, name, params, capabilities).Body.String(), "result")
	}
	direct := func(method, _, params, capabilities string) string {
		rounds.capabilities = capabilities
		result, failed := rounds.send(method, params, nil)
		if failed != nil {
			t.Fatal(failed)
		}
		return string(result)
	}
	for way, send := range map[string]func(method, name, params, capabilities string) string{"HTTP": overHTTP, "memory": direct} {
		check(way+", plain modern call", send("tools/call", "who", `{"name":"who","arguments":{"name":"Ada"}}`, `{}`), "2026-07-28", false)
		created := send("tools/call", "who", `{"name":"who","arguments":{"name":"Ada"}}`, extensionOnly)
		id := strings.Trim(part(created, "taskId"), `"`)
		if _, err := m.Result(t.Context(), map[string]string{"HTTP": "ada", "memory": ""}[way], id, nil); err != nil {
			t.Fatal(err)
		}
		state := send("tasks/get", id, `{"taskId":"`+id+`"}`, extensionOnly)
		check(way+", task of a modern client", part(state, "result"), "2026-07-28", true)
	}
	// An outcome can be read before it is counted; Close waits for the work.
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if got := m.Stats(); got.Created != 4 || got.Completed != 4 {
		t.Errorf("got %+v", got)
	}
}
