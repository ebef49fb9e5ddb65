package server_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/runtime/internal/memory"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// Tasks and plain calls of a tool with a limit wait for one another, in all processes of a fleet.
func TestMaxRunningHoldsForTasksAndCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet := memory.NewFleet()
		var running, greatest atomic.Int64
		work := func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
			greatest.Store(max(greatest.Load(), running.Add(1)))
			time.Sleep(time.Second)
			running.Add(-1)
			return "done", nil
		}
		call := make(chan string, 10)
		for range 2 {
			s := newServer(t, server.Options{Tasks: task.Options{Store: fleet.Store()}})
			server.AddTool(s, "heavy", "", work, server.Durable(), server.MaxRunning(1))
			c := connect(t, s, clientConfig{})
			for range 2 {
				if result, code := c.call("tools/call", `{"name":"heavy","task":{}}`); code != 0 {
					t.Fatal(result, code)
				}
				go func() { // ends with the call
					result, err := c.With(session.Timeout(0)).Call(context.Background(), "tools/call", session.Raw(`{"name":"heavy"}`))
					if err != nil {
						result = []byte(err.Error())
					}
					call <- string(result)
				}()
			}
		}
		start := time.Now()
		for range 4 {
			if result := <-call; !strings.Contains(result, "done") {
				t.Error(result)
			}
		}
		time.Sleep(time.Minute)
		if took := time.Since(start); greatest.Load() != 1 || running.Load() != 0 || took < 8*time.Second {
			t.Errorf("%d at once, took %v", greatest.Load(), took)
		}
	})
}

func TestMaxRunningIsChecked(t *testing.T) {
	for want, s := range map[string]*server.Server{
		"MaxRunning (0) is less than 1":        server.New("s", "1", &server.Options{Tasks: task.Options{Store: memory.New()}}),
		"MaxRunning needs Options.Tasks.Store": server.New("s", "1", nil),
	} {
		n := 0
		if strings.Contains(want, "Tasks.Store") {
			n = 1
		}
		f := func(context.Context, *server.Call, struct{}) (string, error) { return "", nil }
		err := server.AddTool(s, "heavy", "", f, server.MaxRunning(n)).Err()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
