package server_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
)

// A page that a task asks its user to visit belongs to the task: the session that created the task
// may have ended, or belong to an earlier process.
func TestPageOfATaskNeedsNoSession(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(map[bool]string{false: "reconnect", true: "restart"}[restart], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memory.New()
				visited := make(chan struct{})
				open := func() (*server.Server, *task.Manager) {
					return withTasks(t, store, func(s *server.Server) {
						visit := func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
							select {
							case <-time.After(time.Minute):
							case <-ctx.Done():
								return "", ctx.Err()
							}
							action, err := c.ElicitURL(ctx, "Log in.", "https://example.com/login", "one")
							if err != nil {
								return "", err
							}
							select {
							case <-visited:
								return string(action), nil
							case <-ctx.Done():
								return "", ctx.Err()
							}
						}
						must(server.AddTool(s, mcp.Tool{Name: "visit"}, visit,
							server.Tasks(receiver.Support{Mode: mcp.TaskSupportRequired, Restartable: true})))
					})
				}
				client := answering(map[string]string{"elicitation/create": `{"action":"accept"}`})
				with := side{capabilities: capable(t, `{"elicitation":{"url":{}}}`), handler: client.serve}
				s, m := open()
				c := connect(t, s, with)
				created, _ := c.call("tools/call", `{"name":"visit","task":{}}`)
				c.Close()
				if restart {
					s.Close()
					m.Close(t.Context())
					s, _ = open()
				}
				c = connect(t, s, with)
				results := make(chan string, 1)
				go func() {
					raw, _ := c.With(session.Timeout(0)).Call(t.Context(), "tasks/result", session.Raw(`{"taskId":"`+taskID(t, created)+`"}`))
					results <- string(raw)
				}()
				time.Sleep(2 * time.Minute)
				if who, ok := s.ElicitationPrincipal("one"); !ok || who != "ada" {
					t.Errorf("the page is to be visited by %q, %v", who, ok)
				}
				if err := s.ElicitationComplete(t.Context(), "one"); err != nil {
					t.Error(err)
				}
				synctest.Wait()
				if got := c.heard("notifications/elicitation/complete"); len(got) != 1 || !strings.Contains(got[0], `"one"`) {
					t.Errorf("completions: %q", got)
				}
				if _, ok := s.ElicitationPrincipal("one"); ok {
					t.Error("the page is still to be visited after its completion")
				}
				close(visited)
				same(t, "result", "accept", text(t, <-results))
			})
		})
	}
}
