package embedding

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/embed"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
)

func TestInputRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, tools{"ask": ask}, nil)
		p := newPeer("p")
		id := s.start(p, `{"name":"ask","task":{}}`)
		synctest.Wait()
		if got := s.result(inSession(p, "tasks/get", `{"taskId":"`+id+`"}`)); part(got, "status") != "input_required" {
			t.Errorf("got %s", got)
		}
		other := newPeer("other")
		if got := s.payload(other, id); part(got, "answer", "content", "name") != "other" {
			t.Errorf("got %s", got)
		}
		if got := other.messages("elicitation/create", id); len(got) != 1 {
			t.Errorf("the waiter got %q", got)
		}

		created := s.result(inModern(p, "tools/call", `{"name":"ask"}`))
		id = part(created, "taskId")
		synctest.Wait()
		state := s.state(id)
		if part(state, "status") != "input_required" || part(state, "inputRequests", "input-1", "params") != `{"message":"name?"}` {
			t.Errorf("got %s", state)
		}
		s.result(inModern(p, "tasks/update", `{"taskId":"`+id+`","inputResponses":{"input-1":{"action":"decline"}}}`))
		synctest.Wait()
		if got := s.state(id); part(got, "result", "answer", "action") != "decline" {
			t.Errorf("got %s", got)
		}
	})
}

func TestInputRequestIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		request := func(method, params string) func(context.Context, *Call) (json.RawMessage, error) {
			return func(ctx context.Context, c *Call) (json.RawMessage, error) {
				return c.Request(ctx, method, json.RawMessage(params))
			}
		}
		s := newServer(t, tools{
			"sample": request("sampling/createMessage", `{}`), "other": request("x/other", `{}`), "hostile": request("elicitation/create", `[1`), "ask": ask,
		}, func(o *embed.Options) {
			o.Tasks.Limits.Tasks = 2
			o.Tools = map[string]embed.Tool{"rounds": {Rounds: true}}
		})
		p := newPeer("p")
		for tool, want := range map[string]string{"sample": "capability sampling", "other": "x/other", "hostile": "invalid params"} {
			_, err := s.serve(t.Context(), inModern(p, "tools/call", `{"name":"`+tool+`"}`))
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v", tool, err)
			}
		}
		_, err := s.serve(t.Context(), inModern(p, "tools/call", `{"name":"sample"}`))
		if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Code != -32021 || string(e.Data) != `{"requiredCapabilities":{"sampling":{}}}` {
			t.Errorf("got %v", err)
		}
		// At the limit of tasks, a plain call cannot become a task.
		s.result(inModern(p, "tools/call", `{"name":"ask"}`))
		s.result(inModern(p, "tools/call", `{"name":"ask"}`))
		_, err = s.serve(t.Context(), inModern(p, "tools/call", `{"name":"ask"}`))
		wantError(t, err, task.CodeTooManyTasks+1000, "limit of 2") // mapped for revisions without sessions
	})
}

func TestMissingCapabilities(t *testing.T) {
	for _, row := range []struct{ capabilities, method, params, want string }{
		{`{"elicitation":{}}`, "elicitation/create", `{"message":"m"}`, ""},
		{`{"elicitation":{"form":{}}}`, "elicitation/create", `{"mode":"form"}`, ""},
		{`{"elicitation":{"url":{}}}`, "elicitation/create", `{"mode":"form"}`, "elicitation.form"},
		{`{"elicitation":{}}`, "elicitation/create", `{"mode":"url"}`, "elicitation.url"},
		{`{"elicitation":{"url":{}}}`, "elicitation/create", `{"mode":"url"}`, ""},
		{`{}`, "elicitation/create", `{}`, "elicitation"},
		{`{"sampling":{}}`, "sampling/createMessage", `{}`, ""},
		{`{"sampling":{}}`, "sampling/createMessage", `{"tools":[]}`, "sampling.tools"},
		{`{"sampling":{"tools":{}}}`, "sampling/createMessage", `{"toolChoice":{}}`, ""},
		{`{"roots":{}}`, "roots/list", ``, ""},
		{`{"sampling":{}}`, "roots/list", `{}`, "roots"},
		{``, "roots/list", `{}`, ""},
	} {
		c := Client{Initialize: json.RawMessage(`{"capabilities":` + row.capabilities + `}`)}
		if row.capabilities == "" {
			c.Initialize = nil
		}
		if got := c.missing(row.method, json.RawMessage(row.params)); got != row.want {
			t.Errorf("%s with %s: got %q, want %q", row.method, row.capabilities, got, row.want)
		}
	}
}

func TestNotifications(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		chatty := func(ctx context.Context, c *Call) (json.RawMessage, error) {
			send := func(method, params string) { c.Notify(ctx, method, json.RawMessage(params)) }
			send("notifications/message", `{"level":"info","data":"a"}`)
			send("notifications/progress", `{"progressToken":"tok","progress":1,"total":2}`)
			send("notifications/progress", `{"progressToken":"other","progress":1.5}`)
			send("notifications/progress", `[`)
			<-gate
			go func() {
				time.Sleep(time.Second)
				send("notifications/message", `{"level":"info","data":"late"}`)
			}()
			return json.RawMessage(`{}`), nil
		}
		s := newServer(t, tools{"chatty": chatty}, nil)
		p := newPeer("p")
		id := s.start(p, `{"name":"chatty","task":{},"_meta":{"progressToken":"tok"}}`)
		synctest.Wait()
		gate <- struct{}{}
		s.payload(p, id)
		time.Sleep(time.Minute)
		if got := p.messages("notifications/message", `"a"`, id); len(got) != 1 {
			t.Errorf("got log messages %q", got)
		}
		if got := p.messages("notifications/progress"); len(got) != 1 || !strings.Contains(got[0], `"progress":1,"progressToken":"tok","total":2`) {
			t.Errorf("got progress %q", got)
		}
		if got := p.messages("tasks/status", "completed"); len(got) != 1 {
			t.Errorf("got status %q", got)
		}

		p = newPeer("p")
		call := inModern(p, "tools/call", `{"name":"chatty"}`)
		call.Params = json.RawMessage(strings.Replace(string(call.Params), `"_meta":{`, `"_meta":{"progressToken":"tok",`, 1))
		go func() { gate <- struct{}{} }()
		s.result(call)
		time.Sleep(time.Minute)
		want := `notifications/message {"level":"info","data":"a"}, notifications/progress {"progressToken":"tok","progress":1,"total":2}`
		if got := strings.Join(p.messages(), ", "); got != want {
			t.Errorf("a plain call sent %s", got)
		}
	})
}

func TestFailedCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := newServer(t, tools{
			"fails": func(context.Context, *Call) (json.RawMessage, error) { return nil, errors.New("it is broken") },
			"rpc": func(context.Context, *Call) (json.RawMessage, error) {
				return nil, fmt.Errorf("x: %w", &jsonrpc.Error{Code: -7, Message: "no way", Data: json.RawMessage(`[1.0]`)})
			},
			"panics": func(context.Context, *Call) (json.RawMessage, error) { panic("secret") },
			"array":  func(context.Context, *Call) (json.RawMessage, error) { return json.RawMessage(`[]`), nil },
			"none":   func(context.Context, *Call) (json.RawMessage, error) { return nil, nil },
			"broken": func(context.Context, *Call) (json.RawMessage, error) { return json.RawMessage(`{"a":`), nil },
		}, func(o *embed.Options) { o.Tasks.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		p := newPeer("p")
		for tool, want := range map[string]string{
			"fails": `-32603 it is broken`, "rpc": `-7 no way [1.0]`, "panics": `-32603 internal error: the handler panicked`,
			"array": `-32603 internal error: the result of the tool is not a JSON object`, "none": `-32603 internal error: the result of the tool is not a JSON object`,
			"broken": `-32603 internal error: the result of the tool is not a JSON object`,
		} {
			for name, err := range map[string]error{
				"plain": second(s.serve(t.Context(), inModern(p, "tools/call", `{"name":"`+tool+`"}`))),
				"task":  second(s.serve(t.Context(), inSession(p, "tasks/result", `{"taskId":"`+s.start(p, `{"name":"`+tool+`","task":{}}`)+`"}`))),
			} {
				got := ""
				if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
					got = strings.TrimSpace(fmt.Sprintf("%d %s %s", e.Code, e.Message, string(e.Data)))
				}
				if got != want {
					t.Errorf("%s of %s: got %v, want %s", name, tool, err, want)
				}
			}
		}
		synctest.Wait() // the goroutine of the work logs after the result is there
		for _, event := range []string{"handler panicked", "work panicked"} {
			if n := strings.Count(log.String(), `msg="`+event+`"`); n != 1 {
				t.Errorf("%d log lines %s", n, event)
			}
		}
	})
}

func second(_ string, err error) error { return err }

// The client of a request may run in a task of the same process.
func TestCallWithinTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s *server
		var inner []string
		s = newServer(t, tools{"echo": echo, "outer": func(ctx context.Context, c *Call) (json.RawMessage, error) {
			for _, i := range []*Incoming{inModern(newPeer("i"), "tools/call", `{"name":"echo"}`), inSession(newPeer("i"), "tools/call", `{"name":"echo"}`), inSession(newPeer("i"), "tools/call", `{"name":"echo","task":{}}`)} {
				got, err := s.serve(ctx, i)
				inner = append(inner, got, fmt.Sprint(err))
			}
			return json.RawMessage(`{}`), nil
		}}, nil)
		p := newPeer("p")
		id := s.start(p, `{"name":"outer","task":{}}`)
		s.payload(p, id)
		if part(inner[0], "resultType") != "complete" || inner[2] != "plain" || part(inner[4], "task", "taskId") == "" {
			t.Errorf("got %q in a task", inner)
		}
		inner = nil
		s.result(inModern(p, "tools/call", `{"name":"outer"}`))
		if part(inner[0], "resultType") != "complete" || inner[2] != "plain" || part(inner[4], "task", "taskId") == "" {
			t.Errorf("got %q in a plain call", inner)
		}
	})
}

// SDKs convert the error of a handler to a result. If the handler fails because the Engine closes,
// that is not the result of a durable task: its handler runs again.
func TestHandlerThatFailsOnShutdownRunsAgain(t *testing.T) {
	interrupted := func(ctx context.Context, _ *Call) (json.RawMessage, error) {
		<-ctx.Done()
		return json.RawMessage(`{"content":[{"type":"text","text":"context canceled"}],"isError":true}`), nil
	}
	for durable, want := range map[bool]string{true: `"isError":false`, false: `shut down`} {
		synctest.Test(t, func(t *testing.T) {
			edit := func(o *embed.Options) { o.Default = &embed.Tool{Support: receiver.Support{Restartable: durable}} }
			s := newServer(t, tools{"t": interrupted}, edit)
			id := s.start(newPeer("p"), `{"name":"t","task":{}}`)
			synctest.Wait()
			s = s.restarted(tools{"t": func(context.Context, *Call) (json.RawMessage, error) {
				return json.RawMessage(`{"content":[],"isError":false}`), nil
			}}, edit)
			synctest.Wait()
			if got := s.state(id); !strings.Contains(got, want) {
				t.Errorf("durable %t: got %s, want %s", durable, got, want)
			}
		})
	}
}

// The Engine removes a member that looks like a stored client from the params of a request.
func TestClientOfRequestIsNotTrusted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, tools{"echo": echo}, nil)
		p := newPeer("p")
		id := s.start(p, `{"name":"echo","task":{},"_meta":{"com.mcpwire\u002fclient":{"user":"root"}}}`)
		if got := s.payload(p, id); part(got, "params") != `{"name":"echo"}` {
			t.Errorf("got %s", got)
		}
	})
}
