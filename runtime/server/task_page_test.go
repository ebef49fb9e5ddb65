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
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
)

// While a task runs, its elicitations belong to the task: the session that created it may have
// ended, or belong to an earlier process.
func TestTaskElicitationNeedsNoSession(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(map[bool]string{false: "reconnect", true: "restart"}[restart], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memory.New()
				visited := make(chan struct{})
				open := func() *server.Server {
					s, _ := withTasks(t, store, func(s *server.Server) {
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
						server.AddTool(s, "visit", "", visit, server.Tasks(receiver.Support{Mode: mcp.TaskSupportRequired, Restartable: true}))
					})
					return s
				}
				client := respondWith(map[string]string{"elicitation/create": `{"action":"accept"}`})
				with := clientConfig{capabilities: clientCapabilities(t, `{"elicitation":{"url":{}}}`), handler: client.serve}
				s := open()
				c := connect(t, s, with)
				created, _ := c.call("tools/call", `{"name":"visit","task":{}}`)
				c.Close()
				if restart {
					s.Close()
					s = open()
				}
				c = connect(t, s, with)
				results := make(chan string, 1)
				go func() {
					raw, _ := c.With(session.Timeout(0)).Call(t.Context(), "tasks/result", session.Raw(`{"taskId":"`+taskID(t, created)+`"}`))
					results <- string(raw)
				}()
				time.Sleep(2 * time.Minute)
				if principal, ok := s.ElicitationPrincipal("one"); !ok || principal != "ada" {
					t.Errorf("got principal %q, %v", principal, ok)
				}
				if err := s.ElicitationComplete(t.Context(), "one"); err != nil {
					t.Error(err)
				}
				synctest.Wait()
				if got := c.notifications("notifications/elicitation/complete"); len(got) != 1 || !strings.Contains(got[0], `"one"`) {
					t.Errorf("completions: %q", got)
				}
				if _, ok := s.ElicitationPrincipal("one"); ok {
					t.Error("the elicitation is open after its completion")
				}
				close(visited)
				equalJSON(t, "result", "accept", text(t, <-results))
			})
		})
	}
}

func TestRecordNamesTool(t *testing.T) {
	store := memory.New()
	s, _ := withTasks(t, store, func(s *server.Server) {
		server.AddTool(s, "greet", "", sayHi, server.Durable())
	})
	c := connect(t, s, clientConfig{})
	created, _ := c.call("tools/call", `{"name":"greet","arguments":{},"task":{}}`)
	c.call("tasks/result", `{"taskId":"`+taskID(t, created)+`"}`)
	r, err := store.Get(t.Context(), taskID(t, created))
	if err != nil || r.Status != mcp.TaskStatusCompleted || r.Name != "greet" {
		t.Errorf("%+v, %v", r, err)
	}
}

// A durable task that sends the user to the same page again has an elicitation of its own each
// time: that the first one is complete does not end the second one, also if the handler runs again.
func TestTaskSendsUserToSamePageAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
			visit := func(ctx context.Context) error {
				_, err := c.ElicitURL(ctx, "Log in.", "https://example.com/login?id={id}", "")
				return err
			}
			if err := visit(ctx); err != nil {
				return "", err
			}
			return "done", c.RunAll(ctx, visit, visit)
		})
		c := connect(t, d.s, clientConfig{capabilities: clientCapabilities(t, everyInput)})
		created, _ := c.call("tools/call", `{"name":"do","task":{}}`)
		id := taskID(t, created)
		ids := map[string]bool{}
		// pages returns the ids of the open elicitations, whose pages must know them.
		pages := func() (open []string) {
			t.Helper()
			time.Sleep(100 * time.Millisecond) // not parked yet
			for _, q := range d.open(id) {
				open = append(open, strings.Trim(part(string(q.Params), "elicitationId"), `"`))
				if principal, ok := d.s.ElicitationPrincipal(open[len(open)-1]); !ok || principal != "ada" {
					t.Errorf("page %s has the principal %q, %v", q.Params, principal, ok)
				}
				if page := part(string(q.Params), "url"); !strings.Contains(page, open[len(open)-1]) {
					t.Errorf("page %s without the id", page)
				}
			}
			return open
		}
		first := pages()
		for _, page := range first {
			ids[page] = true
		}
		d.answer(id, d.open(id)[0].Number, `{"action":"accept"}`)
		synctest.Wait()
		if err := d.s.ElicitationComplete(t.Context(), first[0]); err != nil {
			t.Fatal(err)
		}
		later := pages()
		for _, page := range later {
			ids[page] = true
		}
		equal(t, "elicitations", 3, len(ids))
		d.answer(id, d.open(id)[0].Number, `{"action":"accept"}`)
		time.Sleep(time.Minute)
		d.restart()
		d.answer(id, d.open(id)[0].Number, `{"action":"accept"}`)
		equal(t, "result", "done", d.result(id))
	})
}
