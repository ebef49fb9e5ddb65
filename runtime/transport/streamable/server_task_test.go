package streamable_test

import (
	"context"
	"encoding/json"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// A client without a standing stream receives the input requests of a task on the stream of
// tasks/result. tasks/get and tasks/list are answered with JSON.
//
// Proves TASK-27 and TASK-28.
func TestInputRequestOfTaskUsesResultStream(t *testing.T) {
	for _, after := range []time.Duration{0, -1} {
		synctest.Test(t, func(t *testing.T) { inputRequestOfTaskUsesResultStream(t, after) })
	}
}

func inputRequestOfTaskUsesResultStream(t *testing.T, after time.Duration) {
	manager, err := task.New(context.Background(), task.Options{Store: memory.New()})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close(context.Background())
	o := newTools()
	o.tasks = receiver.ServerCapabilities(true)
	o.configure = func(cfg *session.Options) { receiver.Attach(cfg, receiver.Options{Manager: manager}) }
	s := serveOver(t, streamable.HandlerOptions{Streams: streamable.Streams{After: after}}, o, func(l net.Listener) net.Listener { return l })
	id := s.openSession(initialize)
	message := func(method, params string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":` + params + `}`
	}
	var created struct {
		Result struct{ Task struct{ TaskID string } }
	}
	create := message("tools/call", `{"name":"sample","task":{}}`)
	answer := ""
	if after < 0 {
		answer = s.events("POST", create, "MCP-Session-Id", id).message()
	} else {
		answer = s.text(create, "MCP-Session-Id", id)
	}
	if err := json.Unmarshal([]byte(answer), &created); err != nil {
		t.Fatal(err)
	}
	named := `{"taskId":"` + created.Result.Task.TaskID + `"}`
	synctest.Wait()
	if got := s.text(message("tasks/get", named), "MCP-Session-Id", id); !strings.Contains(got, `"input_required"`) {
		t.Errorf("the task is %s", got)
	}
	if got := s.text(message("tasks/list", "{}"), "MCP-Session-Id", id); !strings.Contains(got, created.Result.Task.TaskID) {
		t.Errorf("the list is %s", got)
	}
	stream := s.events("POST", message("tasks/result", named), "MCP-Session-Id", id)
	var request struct {
		ID     json.RawMessage
		Method string
	}
	text := stream.message()
	if err := json.Unmarshal([]byte(text), &request); err != nil || request.Method != "sampling/createMessage" || !strings.Contains(text, named) {
		t.Fatalf("the input request is %s, %v", text, err)
	}
	if got := s.status("POST", `{"jsonrpc":"2.0","id":`+string(request.ID)+`,"result":{"model":"m"}}`, "MCP-Session-Id", id); got != 202 {
		t.Errorf("the POST of the answer has status %d", got)
	}
	if got := stream.messages(); len(got) == 0 || !strings.Contains(got[len(got)-1], `"text":"{\"model\":\"m\"}"`) {
		t.Errorf("the last message is %s", got)
	}
}
