package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/memory"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
)

// process adds a server with labels to a fleet. Its tools return its name: "render" requires the
// label gpu, and "store" the region in its arguments as well.
func process(t *testing.T, store task.Store, name string, labels ...string) *server.Server {
	t.Helper()
	cfg := server.Options{Tasks: task.Options{Member: task.Member{Labels: labels}}}
	s, _ := withTasksOf(t, cfg, store, func(s *server.Server) {
		where := func(context.Context, *server.Call, struct {
			Region string `json:"region" default:"eu"`
		}) (string, error) {
			return name, nil
		}
		server.AddTool(s, "render", "", where, server.Durable(), server.RequireLabels("gpu"))
		server.AddTool(s, "store", "", where, server.RequireLabelsFor(regionOf), server.Durable(), server.RequireLabels("gpu"), server.MaxRunning(2))
		server.AddTool(s, "any", "", where, server.Durable())
	})
	synctest.Wait()
	return s
}

// regionOf returns the label for the region in arguments.
func regionOf(_ context.Context, arguments json.RawMessage) []string {
	var in struct{ Region string }
	if err := json.Unmarshal(arguments, &in); err != nil {
		panic(err)
	}
	return []string{"region=" + in.Region}
}

// Calls of tools that require labels are tasks of processes that have them, whichever process gets
// the call. Plain calls are served by such processes alone.
func TestCallsGoToProcessesWithLabels(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := memory.NewFleet()
		front := process(t, f.Store(), "front")
		eu, us := process(t, f.Store(), "eu", "gpu", "region=eu"), process(t, f.Store(), "us", "gpu", "region=us")
		old := connect(t, front, clientConfig{})
		fresh := connectModern(t, front)
		for _, region := range []string{"eu", "us"} {
			params := fmt.Sprintf(`{"name":"store","arguments":{"region":%q}}`, region)
			if got := text(t, part(fresh.task(fresh.startTask("store", `{"region":"`+region+`"}`)), "result")); got != region {
				t.Errorf("the task for %s ran at %s", region, got)
			}
			created, _ := old.call("tools/call", strings.TrimSuffix(params, "}")+`,"task":{}}`)
			result, _ := old.call("tasks/result", fmt.Sprintf(`{"taskId":%q}`, taskID(t, created)))
			if got := text(t, result); got != region {
				t.Errorf("the task for %s ran at %s", region, got)
			}
			want := `tool "store" needs the label "gpu", which this process does not have: call it as a task`
			if got, code := old.call("tools/call", params); got != want || code != jsonrpc.CodeInvalidRequest {
				t.Errorf("a plain call: %s, code %d", got, code)
			}
			fresh.fails("tools/call", params, "", jsonrpc.CodeInvalidRequest, want)
		}
		if got := text(t, part(fresh.task(fresh.startTask("render", `{}`)), "result")); got != "eu" && got != "us" {
			t.Errorf("the task of a tool ran at %s", got)
		}
		if got := text(t, fresh.result("tools/call", `{"name":"any"}`, "")); got != "front" {
			t.Errorf("the plain call of another tool was served by %s", got)
		}
		worker := connectModern(t, us)
		if got := text(t, worker.result("tools/call", `{"name":"store","arguments":{"region":"us"}}`, "")); got != "us" {
			t.Errorf("the plain call was served by %s", got)
		}
		worker.fails("tools/call", `{"name":"store","arguments":{"region":"eu"}}`, "", jsonrpc.CodeInvalidRequest, `needs the label "region=eu"`)
		if id := worker.startTask("render", `{}`); id == "" { // from its beginning, even where it can run
			t.Error("the call is no task")
		}
		if s := eu.Tasks().Stats(); s.Completed == 0 {
			t.Errorf("%+v", s)
		}
	})
}

// A call that has begun before its process requires labels, and that continues where they are
// lacking, is rejected. It does not become a task there.
func TestInputRoundDoesNotContinueWithoutLabel(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := memory.NewFleet()
		key := [][]byte{bytes.Repeat([]byte("k"), 32)}
		open := func(options ...server.ToolOption) *modernClient {
			s, _ := withTasksOf(t, server.Options{Shared: server.Shared{StateKeys: key}}, f.Store(), func(s *server.Server) {
				server.AddTool(s, "ask", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
					return askName(server.InputName(ctx, "who"), c, "Who?")
				}, append(options, server.Durable())...)
			})
			return connectModern(t, s)
		}
		asked := open().result("tools/call", `{"name":"ask"}`, declares(`{"elicitation":{}}`)) // cannot become a task
		if part(asked, "resultType") != `"input_required"` {
			t.Fatalf("got %s", asked)
		}
		next := fmt.Sprintf(`{"name":"ask","requestState":%s,"inputResponses":{"who":{"action":"accept","content":{"name":"Ada"}}}}`, part(asked, "requestState"))
		if got := text(t, open().result("tools/call", next, withExtension)); got != "accept Ada" {
			t.Errorf("without labels, got %s", got)
		}
		open(server.RequireLabels("gpu")).fails("tools/call", next, withExtension, jsonrpc.CodeInvalidRequest, `needs the label "gpu"`)
		for r, err := range f.Store().Scan(t.Context()) {
			t.Errorf("task %+v, %v", r, err)
		}
	})
}

// The labels of a task are in its record, so that a later version of the tool runs it where it was
// placed.
func TestLabelsOfTaskOutlastUpgrade(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := memory.NewFleet()
		front := process(t, f.Store(), "front")
		id := connectModern(t, front).startTask("render", `{}`)
		if r, err := f.Store().Get(t.Context(), id); err != nil || !slices.Equal(r.Labels, []string{"gpu"}) {
			t.Fatalf("labels %q, %v", r.Labels, err)
		}
		front.Close()
		s, m := withTasksOf(t, server.Options{Tasks: task.Options{Member: task.Member{Labels: []string{"gpu"}}}}, f.Store(), func(s *server.Server) {
			server.AddTool(s, "render", "", sayHi, server.Durable(), server.RequireLabels("gpu", "more"))
		})
		out, err := m.Result(t.Context(), "", id, nil)
		if err != nil || out.Error != nil {
			t.Errorf("got %+v, %v", out, err)
		}
		connectModern(t, s).fails("tools/call", `{"name":"render"}`, "", jsonrpc.CodeInvalidRequest, `the label "more"`)
	})
}

// Without a fleet, labels have no effect.
func TestLabelsOfToolWithoutFleet(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := process(t, memory.New(), "only")
		if got := text(t, connectModern(t, s).result("tools/call", `{"name":"store"}`, "")); got != "only" {
			t.Errorf("got %s", got)
		}
		c := connect(t, s, clientConfig{})
		created, _ := c.call("tools/call", `{"name":"render","task":{}}`)
		if result, _ := c.call("tasks/result", fmt.Sprintf(`{"taskId":%q}`, taskID(t, created))); text(t, result) != "only" {
			t.Errorf("got %s", result)
		}
	})
}

// A member whose Tools have a misspelled name runs nothing, so the server logs a warning.
func TestUnknownToolOfMember(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for _, test := range []struct {
			tool    string
			recover func(task.Record) task.Work
			want    int
		}{{"render", nil, 0}, {"rendr", nil, 1}, {"rendr", func(task.Record) task.Work { return nil }, 0}} {
			var out bytes.Buffer
			cfg := server.Options{Logger: slog.New(slog.NewTextHandler(&out, nil))}
			cfg.Tasks = task.Options{Member: task.Member{Tools: []string{test.tool}}, Recovery: task.Recovery{Recover: test.recover}}
			s, _ := withTasksOf(t, cfg, memory.NewFleet().Store(), func(s *server.Server) {
				server.AddTool(s, "render", "", sayHi, server.Durable())
			})
			s.Close()
			if got := strings.Count(out.String(), "tool=rendr"); got != test.want {
				t.Errorf("%q: %d warnings, want %d:\n%s", test.tool, got, test.want, &out)
			}
		}
	})
}

// A call whose labels are invalid is rejected, and logged. So is one whose labels cannot be told.
func TestInvalidLabelsOfCall(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var out bytes.Buffer
		cfg := server.Options{Session: session.Options{Logger: slog.New(slog.NewTextHandler(&out, nil))}}
		s, m := withTasksOf(t, cfg, memory.NewFleet().Store(), func(s *server.Server) {
			server.AddTool(s, "store", "", func(context.Context, *server.Call, map[string]any) (string, error) {
				return "stored", nil
			}, server.Durable(), server.RequireLabelsFor(regionOf))
		})
		old, fresh := connect(t, s, clientConfig{}), connectModern(t, s)
		for region, fault := range map[string]string{`"a b"`: `RequireLabelsFor of the tool: label "region=a b": want 1 to 128`, `1`: `internal error`} {
			params := `{"name":"store","arguments":{"region":` + region + `}}`
			for _, meta := range []string{"", withExtension} {
				fresh.fails("tools/call", params, meta, jsonrpc.CodeInternalError, fault)
			}
			if got, code := old.call("tools/call", params); code != jsonrpc.CodeInternalError || !strings.Contains(got, fault) {
				t.Errorf("a plain call: %s, code %d", got, code)
			}
			if got, code := old.call("tools/call", strings.TrimSuffix(params, "}")+`,"task":{}}`); code != jsonrpc.CodeInternalError || strings.Contains(got, "not available") {
				t.Errorf("a task: %s, code %d", got, code)
			}
		}
		if n := m.Stats().Created; n != 0 {
			t.Errorf("%d tasks", n)
		}
		s.Close()
		synctest.Wait()
		if n := strings.Count(out.String(), `level=ERROR msg="invalid labels" tool=store error="label \"region=a b\": want`); n < 4 {
			t.Errorf("logged %d times", n)
		}
	})
}

func TestMistakesInLabels(t *testing.T) {
	s := newServer(t, server.Options{Tasks: task.Options{Store: memory.New()}})
	durable := server.Durable()
	for _, tt := range []struct {
		want    string
		options []server.ToolOption
	}{
		{`server: tool "x": label "g pu": want 1 to 128 ASCII letters, digits and characters of "-_.:/="`, []server.ToolOption{durable, server.RequireLabels("g pu")}},
		{`server: tool "x": label "": want`, []server.ToolOption{server.Tasks(receiver.Support{Restartable: true, Labels: []string{""}})}},
		{`server: tool "x": labels need Durable`, []server.ToolOption{server.RequireLabels("gpu")}},
		{`server: tool "x": labels need Durable`, []server.ToolOption{server.RequireLabelsFor(regionOf), server.Tasks(receiver.Support{})}},
		{`server: tool "x": labels need Durable`, []server.ToolOption{server.RequireLabels("gpu"), server.Tasks(receiver.Support{Restartable: true, Mode: mcp.TaskSupportForbidden})}},
		{`server: tool "x": nil option`, []server.ToolOption{durable, server.RequireLabelsFor(nil)}},
	} {
		if err := server.AddTool(s, "x", "", sayHi, tt.options...).Err(); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("got %v, want %s", err, tt.want)
		}
	}
	invalid := newServer(t, server.Options{Tasks: task.Options{Store: memory.NewFleet().Store(), Member: task.Member{Labels: []string{"a,b"}}}})
	if err := invalid.Start(t.Context()); err == nil || !strings.HasPrefix(err.Error(), `server: start: task: Member.Labels: label "a,b": want`) {
		t.Errorf("got %v", err)
	}
}
