package client_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"weak"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/task/requestor"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
)

// A client that was closed does not stay in memory, even if its options refer to the handle of a task
// that has asked for input.
func TestClosedClientsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := server.New("shop", "1", &server.Options{Tasks: task.Options{Store: memory.New()}})
		server.AddTool(s, "order", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
			var in struct {
				Name string `json:"name"`
			}
			_, err := server.Elicit(ctx, c, "Who?", &in)
			return in.Name, err
		}, server.Tasks(receiver.Support{After: -1}))
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		var all []weak.Pointer[client.Client]
		for range 16 {
			here, there := inmemory.Pair(inmemory.Options{})
			if _, err := s.Serve(there); err != nil {
				t.Fatal(err)
			}
			var latest atomic.Pointer[requestor.Handle[*mcp.CallToolResult]]
			o := &client.Options{Input: client.Input{Fill: func(context.Context, *client.FormRequest) (*mcp.ElicitResult, error) {
				latest.Load()
				return client.Accept(map[string]any{"name": "ada"})
			}}}
			o.Session.Revisions = session.ModernRevisions()
			c, err := client.Connect(t.Context(), here, o)
			if err != nil {
				t.Fatal(err)
			}
			h, err := c.StartTool(t.Context(), "order", nil)
			if err != nil {
				t.Fatal(err)
			}
			latest.Store(h)
			if got := textOf(h.Result(t.Context())); got != "ada" {
				t.Fatalf("the task has the result %q", got)
			}
			c.Close()
			all = append(all, weak.Make(c))
		}
		s.Close()
		synctest.Wait() // goroutines that end refer to the clients
		runtime.GC()
		runtime.GC()
		all = all[:len(all)-1] // a stack may still refer to the last one
		left := 0
		for _, c := range all {
			if c.Value() != nil {
				left++
			}
		}
		if left > 0 {
			t.Errorf("%d of %d clients are in memory", left, len(all))
		}
	})
}
