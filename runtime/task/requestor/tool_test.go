package requestor_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/internal/sessiontest"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/task/requestor"
)

// The task support of a tool decides whether it is called as a task, if the server declares tasks.
//
// Proves TASK-07, TASK-08, TASK-11.
func TestToolSupportIsRespected(t *testing.T) {
	support := func(s mcp.TaskSupport) *mcp.Tool {
		return &mcp.Tool{Name: "render", Execution: &mcp.ToolExecution{TaskSupport: &s}}
	}
	for _, tt := range []struct {
		name           string
		tool           *mcp.Tool
		declared       bool
		refused        bool // as a task
		invokedAsATask bool
	}{
		{"no execution", &mcp.Tool{Name: "render"}, true, true, false},
		{"no task support", &mcp.Tool{Name: "render", Execution: new(mcp.ToolExecution)}, true, true, false},
		{"forbidden", support(mcp.TaskSupportForbidden), true, true, false},
		{"optional", support(mcp.TaskSupportOptional), true, false, false},
		{"required", support(mcp.TaskSupportRequired), true, false, true},
		{"required, server without tasks", support(mcp.TaskSupportRequired), false, true, false},
		{"unknown value", support("deferred"), true, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, err := task.New(t.Context(), task.Options{Store: memory.New()})
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close(context.Background())
				var s spy
				side := sessiontest.Side{Server: mcp.ServerCapabilities{Tools: new(mcp.ServerCapabilitiesTools)}}
				if tt.declared {
					side.Server.Tasks = receiver.ServerCapabilities(false)
				}
				side.Config.Hooks.Receiving = []session.Middleware{s.middleware}
				side.Config.Handler = func(context.Context, *session.Request) (codec.Encoder, error) { return text("done"), nil }
				receiver.Attach(&side.Config, receiver.Options{Manager: m})
				var client sessiontest.Side
				tasks := requestor.Attach(&client.Config)
				c, _ := sessiontest.Pair(t, client, side)

				_, err = tasks.CallTool(t.Context(), c, render, requestor.Tool(tt.tool))
				_, lacking := errors.AsType[*session.CapabilityError](err)
				if refused := errors.Is(err, requestor.ErrNotAsTask) || lacking; refused != tt.refused {
					t.Errorf("as a task: %v", err)
				}
				before, _ := s.received("tools/call")
				if want := map[bool]int{false: 1}[tt.refused]; len(before) != want {
					t.Errorf("sent %q", before)
				}
				r, err := tasks.Invoke(t.Context(), c, tt.tool, render)
				if err != nil || content(t, r) != "done" {
					t.Errorf("invoked: %v, %v", r, err)
				}
				after, _ := s.received("tools/call")
				if got := strings.Contains(after[len(after)-1], `"task"`); got != tt.invokedAsATask {
					t.Errorf("invoked by %s", after[len(after)-1])
				}
			})
		})
	}
}
