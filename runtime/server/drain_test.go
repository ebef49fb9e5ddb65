package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/memory"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
)

// takes is the handler of a tool that takes some time.
func takes(d time.Duration) func(context.Context, *server.Call, struct{}) (string, error) {
	return func(ctx context.Context, _ *server.Call, _ struct{}) (string, error) {
		select {
		case <-time.After(d):
			return "done", nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// During Shutdown, the work of tasks has the time of Options.Limits.Drain to finish. Sessions end
// meanwhile.
func TestTasksFinishDuringShutdown(t *testing.T) {
	for name, tt := range map[string]struct {
		drain, took time.Duration
		status      mcp.TaskStatus
	}{
		"long":  {time.Hour, time.Minute, mcp.TaskStatusCompleted},
		"short": {time.Second, time.Second, mcp.TaskStatusFailed},
		"none":  {0, 0, mcp.TaskStatusFailed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memory.New()
				s, _ := withTasksOf(t, server.Options{Limits: server.Limits{Drain: tt.drain}}, store, func(s *server.Server) {
					server.AddTool(s, "slow", "", takes(time.Minute), server.Tasks(receiver.Support{Mode: mcp.TaskSupportOptional}))
				})
				c := connect(t, s, clientConfig{})
				created, _ := c.call("tools/call", `{"name":"slow","task":{}}`)
				began := time.Now()
				stopped := make(chan error, 1)
				go func() { stopped <- s.Shutdown(context.Background()) }() // ends with the drain
				<-c.Done()
				if d := time.Since(began); d != 0 {
					t.Errorf("the session ended after %v", d)
				}
				if err := <-stopped; err != nil || time.Since(began) != tt.took {
					t.Errorf("Shutdown took %v: %v", time.Since(began), err)
				}
				if r, err := store.Get(t.Context(), taskID(t, created)); err != nil || r.Status != tt.status {
					t.Errorf("the task is %s, %v", r.Status, err)
				}
			})
		})
	}
}

// In a fleet, what does not finish in that time runs again in another process, at once.
func TestShutdownHandsTasksOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		add := func(s *server.Server) {
			server.AddTool(s, "slow", "", takes(time.Minute), server.Durable(), server.MaxRunning(1))
		}
		first, _ := withTasksOf(t, server.Options{Limits: server.Limits{Drain: 10 * time.Second}}, f.Store(), add)
		c := connect(t, first, clientConfig{})
		var ids []string
		for range 2 { // the second one is queued
			created, _ := c.call("tools/call", `{"name":"slow","task":{}}`)
			ids = append(ids, taskID(t, created))
		}
		second, m := withTasksOf(t, server.Options{}, f.Store(), add)
		synctest.Wait()
		began := time.Now()
		go first.Shutdown(context.Background()) // ends with the drain
		synctest.Wait()
		if stats := m.Stats(); stats.Running+stats.Queued != 1 || time.Since(began) != 0 {
			t.Errorf("%+v after %v", stats, time.Since(began))
		}
		for _, id := range ids {
			if _, err := m.Result(t.Context(), "", id, nil); err != nil {
				t.Error(err)
			}
		}
		if d := time.Since(began); d != 10*time.Second+2*time.Minute {
			t.Errorf("the tasks ended after %v", d)
		}
		synctest.Wait() // an outcome can be read before it is counted
		if stats := second.Tasks().Stats(); stats.Completed != 2 {
			t.Errorf("%+v", stats)
		}
	})
}

// A process dies after it has made a call a task, before the first step of the call. The task is
// not lost: another one runs the step, once.
func TestProcessDiesBetweenPromotionAndFirstStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		var steps [2]atomic.Int64
		add := func(n int) func(s *server.Server) {
			return func(s *server.Server) {
				server.AddTool(s, "do", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
					return server.Step(ctx, c, "s", func(context.Context) (string, error) {
						steps[n].Add(1)
						return "done", nil
					})
				}, server.Durable())
			}
		}
		end := make(chan struct{})
		front, _ := withTasksOf(t, server.Options{}, dyingStore{f.Store(), end}, add(0))
		t.Cleanup(func() { close(end) }) // before the server is closed
		c := connectModern(t, front)
		c.start("tools/call", `{"name":"do"}`, withExtension)
		synctest.Wait()
		_, m := withTasksOf(t, server.Options{}, f.Store(), add(1))
		time.Sleep(time.Hour / 2)
		var ids []string
		for r, err := range f.Store().Scan(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, r.ID)
		}
		if len(ids) != 1 {
			t.Fatalf("tasks %v", ids)
		}
		if out, err := m.Result(t.Context(), "", ids[0], nil); err != nil || text(t, string(out.Result)) != "done" {
			t.Errorf("got %s, %v", out.Result, err)
		}
		if steps[0].Load() != 0 || steps[1].Load() != 1 {
			t.Errorf("the step has run %d and %d times", steps[0].Load(), steps[1].Load())
		}
	})
}

// dyingStore is a store whose process dies as soon as it has created a task. It returns at the end
// of the test.
type dyingStore struct {
	*memory.FleetStore
	end chan struct{}
}

func (s dyingStore) Create(ctx context.Context, r task.Record) (task.Record, error) {
	r, err := s.FleetStore.Create(ctx, r)
	s.Cut()
	<-s.end
	return r, errors.Join(err, memory.ErrCut)
}

// A task that waits for the first of several events moves in a drain, whenever an event happens, and
// the next member goes on with that event. The step before the wait does not run again, and the
// client is not asked again.
func TestSelectMovesInDrain(t *testing.T) {
	for want, happens := range map[string]func(m *task.Manager, id string) error{
		"paid 7": func(m *task.Manager, id string) error { return m.Signal(t.Context(), id, "paid", json.RawMessage(`7`)) },
		"accept Ada": func(m *task.Manager, id string) error {
			return m.Update(t.Context(), "ada", id, "tasks/update", func(*task.InputRequest) (json.RawMessage, error) {
				return json.RawMessage(accept(`{"name":"Ada"}`)), nil
			})
		},
		"late": func(*task.Manager, string) error { return nil },
	} {
		for after := -400 * time.Millisecond; after <= 1600*time.Millisecond; after += 100 * time.Millisecond { // the drain begins
			synctest.Test(t, func(t *testing.T) {
				f := memory.NewFleet()
				var steps atomic.Int64
				add := func(s *server.Server) {
					server.AddTool(s, "do", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
						_, err := server.Step(ctx, c, "before", func(context.Context) (int64, error) { return steps.Add(1), nil })
						if err != nil {
							return "", err
						}
						chosen, err := payment(ctx, c)
						if err != nil {
							return "", err
						}
						_, err = server.Step(ctx, c, "after", func(context.Context) (int64, error) { return steps.Add(1), nil })
						return chosen, err
					}, server.Durable())
				}
				cfg := server.Options{Limits: server.Limits{Drain: time.Hour}, Session: session.Options{Principal: "ada"}}
				cfg.Tasks.TTL.Default = 24 * time.Hour
				first, _ := withTasksOf(t, cfg, f.Store(), add)
				cfg.Tasks.Member.Tools = []string{}
				front, m := withTasksOf(t, cfg, f.Store(), add)
				c := connect(t, front, clientConfig{capabilities: clientCapabilities(t, everyInput)})
				created, _ := c.call("tools/call", `{"name":"do","task":{}}`)
				id := taskID(t, created)
				event := time.Now().Add(time.Minute)
				if want == "late" {
					event = time.Now().Add(time.Hour)
				}
				cfg.Tasks.Member.Tools = nil
				withTasksOf(t, cfg, f.Store(), add)
				time.AfterFunc(time.Until(event)-after, func() { first.Shutdown(context.Background()) })
				time.Sleep(time.Until(event))
				if err := happens(m, id); err != nil {
					t.Fatal(err)
				}
				out, err := m.Result(t.Context(), "ada", id, nil)
				if err != nil || text(t, string(out.Result)) != want {
					t.Errorf("got %s, %v", out.Result, err)
				}
				if n := steps.Load(); n != 2 {
					t.Errorf("%d steps have run", n)
				}
			})
		}
	}
}

func TestNegativeDrain(t *testing.T) {
	if err := server.New("s", "1", &server.Options{Limits: server.Limits{Drain: -1}}).Err(); err == nil || !strings.HasSuffix(err.Error(), "server: negative Limits.Drain (-1ns)") {
		t.Errorf("got %v", err)
	}
}
