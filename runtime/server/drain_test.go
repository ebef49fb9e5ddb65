package server_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
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

// During Shutdown, the work of tasks has the time of Config.Drain to finish. Sessions end meanwhile.
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
				s, _ := withTasksOf(t, server.Config{Drain: tt.drain}, store, func(s *server.Server) {
					must(server.AddTool(s, "slow", "", takes(time.Minute), server.Tasks(receiver.Support{Mode: mcp.TaskSupportOptional})))
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
			must(server.AddTool(s, "slow", "", takes(time.Minute), server.Durable(), server.MaxRunning(1)))
		}
		first, _ := withTasksOf(t, server.Config{Drain: 10 * time.Second}, f.Store(), add)
		c := connect(t, first, clientConfig{})
		var ids []string
		for range 2 { // the second one is queued
			created, _ := c.call("tools/call", `{"name":"slow","task":{}}`)
			ids = append(ids, taskID(t, created))
		}
		second, m := withTasksOf(t, server.Config{}, f.Store(), add)
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
		if stats := second.Tasks().Stats(); stats.Completed != 2 {
			t.Errorf("%+v", stats)
		}
	})
}

func TestNegativeDrain(t *testing.T) {
	if err := server.New("s", "1", &server.Config{Drain: -1}).Err(); err == nil || !strings.HasSuffix(err.Error(), "server: negative Drain (-1ns)") {
		t.Errorf("got %v", err)
	}
}
