package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// here returns the file and the line of its caller, as errors name it.
func here() string {
	_, file, line, _ := runtime.Caller(1)
	return fmt.Sprintf("%s:%d", filepath.Base(file), line)
}

// Each function that adds a feature records its error with the line of the call, and nothing starts.
func TestMistakesAreRecordedWithTheirLine(t *testing.T) {
	s := server.New("", "1", &server.Options{Info: mcp.Implementation{Version: "2"}, Features: server.Features{PageSize: -1}, Session: session.Options{Logger: slog.New(slog.DiscardHandler)}})
	want := []string{here(), "server: empty name", "", `server: version "1" differs from "2" in Options.Info`, "", "server: negative Features.PageSize (-1)"}
	prompt := func(context.Context, *server.Call, map[string]string) (string, error) { return "", nil }
	add := func(err error, at, text string) {
		t.Helper()
		if err == nil || err.Error() != text {
			t.Errorf("got %v, want %s", err, text)
		}
		want = append(want, at, text)
	}
	err := server.AddTool[struct{}, string](s, "a", "", nil).Err()
	add(err, here(), `server: tool "a": nil function`)
	err = server.AddTool(s, "b", "", sayHi, server.Durable()).Err()
	add(err, here(), `server: tool "b": tasks need Options.Tasks.Store`)
	err = server.AddTool(s, "c", "", sayHi, server.DefineTool(func(t *mcp.Tool) { t.Name = "d" })).Err()
	add(err, here(), `server: tool "c": DefineTool changed the name to "d"`)
	err = server.AddTool(s, "e", "", sayHi, server.DefineTool(nil)).Err()
	add(err, here(), `server: tool "e": nil option`)
	err = server.AddTool(s, "e2", "", sayHi, server.DefineToolFor(nil)).Err()
	add(err, here(), `server: tool "e2": nil option`)
	err = server.AddTool(s, "e3", "", sayHi, server.ToolOptions(server.DefineToolFor(nil))).Err()
	add(err, here(), `server: tool "e3": nil option`)
	err = server.AddTool(s, "f", "", func(context.Context, *server.Call, struct{}) ([]byte, error) { return nil, nil }).Err()
	add(err, here(), `server: tool "f": output: want string for text, or a content block for binary data, got []byte`)
	err = s.AddRawTool(mcp.Tool{Name: "g"}, nil).Err()
	add(err, here(), `server: tool "g": nil function`)
	err = server.AddPrompt(s, "h", "", prompt, server.DefinePrompt(func(p *mcp.Prompt) { p.Name = "" })).Err()
	add(err, here(), `server: prompt "h": DefinePrompt changed the name to ""`)
	err = server.AddResource(s, "test://i", "i", readText, server.DefineResource(func(r *mcp.Resource) { r.URI = "test://j" })).Err()
	add(err, here(), `server: resource "test://i": DefineResource changed the URI to "test://j"`)
	err = server.AddResource(s, "test://k", "k", func(context.Context, *server.Call, server.Resource) (int, error) { return 0, nil }).Err()
	add(err, here(), `server: resource "test://k": output: want string, []byte, mcp.AnyResourceContents or a slice of these, got int`)
	err = server.AddTemplate[string](s, "test://{l}", "l", nil).Err()
	add(err, here(), `server: resource template "test://{l}": nil function`)
	func() { err = server.AddTemplate(s, "test://{m}", "", readText).Err() }()
	add(err, here(), `server: resource template needs both a name and a URI template`)
	err = s.Extend(server.Extension{ID: "n"})
	add(err, here(), `server: extension "n": want an identifier with a prefix, such as "com.example/name"`)
	err = s.RecordMistake(errors.New("other: mistake"))
	add(err, here(), "other: mistake")

	lines := strings.Split(s.Err().Error(), "\n")
	if len(lines) != len(want)/2 {
		t.Fatalf("%d mistakes, want %d:\n%s", len(lines), len(want)/2, s.Err())
	}
	for i, line := range lines {
		at, text := want[2*i], want[2*i+1]
		if !strings.HasSuffix(line, ": "+text) || !strings.HasPrefix(line, "start_test.go:") {
			t.Errorf("got %s, want %s", line, text)
		}
		if i > 2 && !strings.HasPrefix(line, previousLine(at)+": ") {
			t.Errorf("got %s, want the line before %s", line, at)
		}
	}
	_, conn := inmemory.Pair(inmemory.Options{})
	_, serveErr := s.Serve(conn)
	for name, err := range map[string]error{
		"Start": s.Start(t.Context()), "Serve": serveErr, "Run": s.Run(t.Context(), conn),
		"ServeStdio": s.ServeStdio(t.Context()), "ListenAndServe": s.ListenAndServe(t.Context(), "localhost:0", nil),
	} {
		if err == nil || err.Error() != s.Err().Error() {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// previousLine returns the place before a place.
func previousLine(at string) string {
	var line int
	file, number, _ := strings.Cut(at, ":")
	fmt.Sscan(number, &line)
	return fmt.Sprintf("%s:%d", file, line-1)
}

// After the start, an error is logged, and the server continues.
func TestMistakesAfterStartAreLogged(t *testing.T) {
	var out bytes.Buffer
	s := newServer(t, server.Options{Logger: slog.New(slog.NewTextHandler(&out, nil))})
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := server.AddTool(s, "no name", "", sayHi).Err(); err == nil {
		t.Error("no error")
	}
	if s.Err() != nil || !strings.Contains(out.String(), `level=WARN msg="feature not added" error="start_test.go:`) {
		t.Errorf("Err returns %v, log: %s", s.Err(), &out)
	}
	connect(t, s, clientConfig{})
}

// A handle that a function returns for an invalid feature has the error, and none of its methods
// changes a feature.
func TestHandleOfInvalidFeatureHasItsError(t *testing.T) {
	s := server.New("s", "1", nil)
	defer s.Close()
	h := server.AddTool(s, "no name", "", sayHi)
	want := h.Err()
	if want == nil || !errors.Is(s.Err(), want) {
		t.Fatalf("Err returns %v, that of the server %v", want, s.Err())
	}
	for name, err := range map[string]error{
		"Change": h.Change(func(*mcp.Tool) {}), "Disable": h.Disable(), "Enable": h.Enable(), "Remove": h.Remove(),
	} {
		if err != want {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	if err := server.AddTool(s, "name", "", sayHi).Err(); err != nil {
		t.Errorf("Err of a valid feature returns %v", err)
	}
}

// The error of Handler lists every mistake, and those of its options. Other handlers of the server
// answer 500, without details.
func TestServerWithMistakesHasNoHandler(t *testing.T) {
	s := server.New("s", "1", &server.Options{Logger: slog.New(slog.DiscardHandler)})
	defer s.Close()
	server.AddTool(s, "secret name", "", sayHi)
	server.AddTool(s, "other name", "", sayHi)
	h, err := s.Handler(&streamable.HandlerOptions{Limits: streamable.Limits{Sessions: -3}})
	if h != nil || err == nil || strings.Count(err.Error(), "start_test.go:") != 3 || !strings.Contains(err.Error(), "secret") ||
		!strings.Contains(err.Error(), "other") || !strings.Contains(err.Error(), "Limits.Sessions (-3)") {
		t.Errorf("got %v, %v", h, err)
	}
	h = streamable.NewHandler(func(_ *http.Request, conn transport.Conn) { s.Serve(conn) }, streamable.HandlerOptions{Logger: slog.New(slog.DiscardHandler)})
	defer h.Close()
	if w := postInitialize(h); w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "secret") {
		t.Errorf("status %d, %s", w.Code, w.Body)
	}
}

// Invalid options are the error of Handler also if the server runs.
func TestHandlerOfRunningServerChecksItsOptions(t *testing.T) {
	s := server.New("s", "1", &server.Options{Logger: slog.New(slog.DiscardHandler)})
	defer s.Close()
	must(s.Handler(nil)).Close()
	h, err := s.Handler(&streamable.HandlerOptions{Limits: streamable.Limits{Sessions: -3}})
	if h != nil || err == nil || !strings.Contains(err.Error(), "Limits.Sessions (-3)") {
		t.Errorf("got %v, %v", h, err)
	}
}

// The work of an unfinished task of another tool comes from the configuration.
func TestRecoverOfConfigServesUnknownTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		hang := func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}
		first, _ := withTasks(t, store, func(s *server.Server) {
			server.AddTool(s, "old", "", hang, server.Durable())
			server.AddTool(s, "kept", "", hang, server.Durable())
		})
		c := connect(t, first, clientConfig{})
		old, _ := c.call("tools/call", `{"name":"old","task":{}}`)
		kept, _ := c.call("tools/call", `{"name":"kept","task":{}}`)
		first.Close()

		var asked []string
		cfg := server.Options{Session: session.Options{Principal: "ada"}, Tasks: task.Options{Recovery: task.Recovery{Recover: func(r task.Record) task.Work {
			asked = append(asked, part(string(r.Params), "name"))
			return func(context.Context, *task.Run) (codec.Encoder, error) { return server.Text("from Recover"), nil }
		}}}}
		second, _ := withTasksOf(t, cfg, store, func(s *server.Server) {
			server.AddTool(s, "kept", "", sayHi, server.Durable())
		})
		c = connect(t, second, clientConfig{})
		for created, want := range map[string]string{old: "from Recover", kept: "hi"} {
			result, _ := c.call("tasks/result", `{"taskId":"`+taskID(t, created)+`"}`)
			if got := text(t, result); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		if len(asked) != 1 || asked[0] != `"old"` {
			t.Errorf("Recover was called for %q", asked)
		}
	})
}

// A start that fails because of the store can be repeated.
func TestStartFailsWhileStoreIsInUse(t *testing.T) {
	store := memory.New()
	first, _ := withTasks(t, store, func(*server.Server) {})
	second := newServer(t, server.Options{Tasks: task.Options{Store: store}})
	failing := newServer(t, server.Options{Tasks: task.Options{Store: store}})
	for _, s := range []*server.Server{second, failing} {
		if err := s.Start(t.Context()); !errors.Is(err, task.ErrInUse) || s.Tasks() != nil {
			t.Errorf("got %v", err)
		}
	}
	if server.AddTool(failing, "no name", "", sayHi); failing.Err() == nil {
		t.Error("a mistake after a start that failed is not recorded")
	}
	first.Close()
	if err := second.Start(t.Context()); err != nil || second.Tasks() == nil {
		t.Errorf("after the other server has closed: %v", err)
	}
	second.Close()
	if _, err := second.Tasks().Get(t.Context(), "", "x", nil); !errors.Is(err, task.ErrClosed) {
		t.Errorf("the Manager of a closed server: %v", err)
	}
	third := newServer(t, server.Options{Tasks: task.Options{Store: store}})
	third.Close()
	if err := third.Start(t.Context()); !errors.Is(err, session.ErrClosed) {
		t.Errorf("start of a closed server: %v", err)
	}
}

// The zero Mode of the option Tasks means optional.
func TestTaskSupportFollowsOption(t *testing.T) {
	s, _ := withTasks(t, memory.New(), func(s *server.Server) {
		server.AddTool(s, "a", "", sayHi, server.Durable())
		server.AddTool(s, "b", "", sayHi, server.Tasks(receiver.Support{}))
		server.AddTool(s, "c", "", sayHi, server.Tasks(receiver.Support{Mode: mcp.TaskSupportRequired}))
	})
	var list mcp.ListToolsResult
	result, _ := connect(t, s, clientConfig{}).call("tools/list", "")
	if err := codec.Unmarshal([]byte(result), &list); err != nil {
		t.Fatal(err)
	}
	for i, want := range []mcp.TaskSupport{mcp.TaskSupportOptional, mcp.TaskSupportOptional, mcp.TaskSupportRequired} {
		if got := *list.Tools[i].Execution.TaskSupport; got != want {
			t.Errorf("%s: %q", list.Tools[i].Name, got)
		}
	}
}

// A client without a principal cannot list tasks, even if it ignores the declared capabilities.
func TestTasksListNeedsPrincipal(t *testing.T) {
	s, _ := withTasksOf(t, server.Options{}, memory.New(), func(*server.Server) {})
	conn, there := inmemory.Pair(inmemory.Options{})
	must(s.Serve(there))
	defer conn.Close()
	var answers []string
	for _, text := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`,
		`{"jsonrpc":"2.0","id":2,"method":"tasks/list"}`,
	} {
		if err := conn.Write(t.Context(), transport.Message{Text: []byte(text)}); err != nil {
			t.Fatal(err)
		}
		m, err := conn.Read()
		if err != nil {
			t.Fatal(err)
		}
		answers = append(answers, string(m.Text))
	}
	if strings.Contains(answers[0], `"list":`) || !strings.Contains(answers[1], `-32601`) {
		t.Errorf("answers: %s", answers)
	}
}
