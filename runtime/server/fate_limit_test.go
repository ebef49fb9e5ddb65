package server_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
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

// fate is a way in which a call becomes a durable task and waits.
type fate struct {
	name      string
	inSession bool
	after     time.Duration
	parks     bool
	restarts  bool
}

var fates = []fate{
	{name: "in a session", inSession: true},
	{name: "at once", after: -1},
	{name: "promoted", after: time.Millisecond},
	{name: "parked", after: -1, parks: true},
	{name: "promoted and parked", after: time.Millisecond, parks: true},
	{name: "recovered", after: -1, restarts: true},
	{name: "promoted, parked and recovered", after: time.Millisecond, parks: true, restarts: true},
}

// fatedServer is a server with a tool whose calls become tasks of one fate.
type fatedServer struct {
	t     *testing.T
	fate  fate
	cfg   task.Options
	store *memory.Store
	s     *server.Server
	m     *task.Manager
	c     *modernClient
	calls int
}

func newFated(t *testing.T, f fate, cfg task.Options) *fatedServer {
	cfg.Recovery.ParkAfter, cfg.Updates.Quiet = -1, true
	if f.parks {
		cfg.Recovery.ParkAfter = time.Second
	}
	x := &fatedServer{t: t, fate: f, cfg: cfg, store: memory.New()}
	x.start()
	return x
}

func (x *fatedServer) start() {
	cfg := server.Options{Tasks: x.cfg, Session: session.Options{Principal: "ada"}}
	x.s, x.m = withTasksOf(x.t, cfg, x.store, func(s *server.Server) {
		server.AddTool(s, "do", "", func(ctx context.Context, c *server.Call, _ struct {
			Pad string `json:"pad,omitempty"`
		}) (string, error) {
			time.Sleep(10 * time.Millisecond) // the call is promoted
			var p person
			if _, err := server.Elicit(ctx, c, "Who?", &p); err != nil {
				return "", err
			}
			return server.Step(ctx, c, "large", func(context.Context) (string, error) { return strings.Repeat("x", 2000), nil })
		}, server.Tasks(receiver.Support{Mode: mcp.TaskSupportOptional, Restartable: true, After: x.fate.after}))
	})
	x.c = connectModern(x.t, x.s)
	if x.fate.inSession {
		x.c.write(`{"jsonrpc":"2.0","id":"hi","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"c","version":"1"}}}`)
		synctest.Wait()
		x.c.write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		x.c.take()
	}
}

// call calls the tool, in a message with many spaces behind its params.
func (x *fatedServer) call(pad, spaces int) {
	x.calls++
	meta := withExtension + `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`
	params := fmt.Sprintf(`{"_meta":{%s},"name":"do","arguments":{"pad":%q}}`, meta, strings.Repeat("x", pad))
	if x.fate.inSession {
		params = fmt.Sprintf(`{"task":{},"name":"do","arguments":{"pad":%q}}`, strings.Repeat("x", pad))
	}
	x.c.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":"call %d","method":"tools/call","params":%s%s}`, x.calls, params, strings.Repeat(" ", spaces)))
	time.Sleep(100 * time.Millisecond)
}

// settle waits until the calls have their fate.
func (x *fatedServer) settle() {
	time.Sleep(5 * time.Second)
	if x.fate.restarts {
		if err := x.s.Shutdown(x.t.Context()); err != nil {
			x.t.Fatal(err)
		}
		x.start()
		time.Sleep(time.Second)
	}
	if got := x.m.Stats().Parked > 0; got != x.fate.parks {
		x.t.Errorf("parked: %v", got)
	}
}

// tasks returns the number of tasks in the store, and the id of the first one.
func (x *fatedServer) tasks() (n int, id string) {
	list := must(x.store.List(x.t.Context(), "ada", 0, 1000))
	return len(list), list[0].ID
}

// Each limit holds for tasks of every fate. A call that exceeds a limit of tasks is refused, or
// stays a plain one if it would become a task later.
func TestLimitsHoldInEveryFate(t *testing.T) {
	for _, f := range fates {
		fated := func(name string, cfg task.Options, test func(t *testing.T, x *fatedServer)) {
			t.Run(f.name+", "+name, func(t *testing.T) {
				inBubble(t, func(t *testing.T) { test(t, newFated(t, f, cfg)) })
			})
		}
		fated("Limits.Tasks", task.Options{Limits: task.Limits{Tasks: 2}}, func(t *testing.T, x *fatedServer) {
			x.call(0, 0)
			x.call(0, 0)
			x.settle()
			x.call(0, 0)
			if n, _ := x.tasks(); n != 2 {
				t.Errorf("%d tasks, want 2", n)
			}
		})
		fated("Limits.Bytes", task.Options{Limits: task.Limits{Bytes: 64 << 10}}, func(t *testing.T, x *fatedServer) {
			x.call(40<<10, 0)
			x.settle()
			x.call(40<<10, 0)
			if n, _ := x.tasks(); n != 1 {
				t.Errorf("%d tasks, want 1", n)
			}
			x.call(1<<10, 0)
			if n, _ := x.tasks(); n != 2 {
				t.Errorf("%d tasks, want 2", n)
			}
		})
		fated("Limits.Bytes and the message", task.Options{}, func(t *testing.T, x *fatedServer) {
			before := heapInUse()
			for range 16 {
				x.call(0, 1<<20)
			}
			x.settle()
			x.c.take()
			if n, _ := x.tasks(); n != 16 {
				t.Fatalf("%d tasks, want 16", n)
			}
			if held := heapInUse() - before; held > 4<<20 {
				t.Errorf("16 tasks hold %d KiB", held>>10)
			}
		})
		fated("Limits.Rate", task.Options{Limits: task.Limits{Rate: 0.001, Burst: 4}}, func(t *testing.T, x *fatedServer) {
			x.call(0, 0)
			x.settle()
			_, id := x.tasks()
			served := 0
			for range 10 {
				if answer, _ := x.c.call("tasks/get", fmt.Sprintf(`{"taskId":%q}`, id), withExtension); answer.Error == nil {
					served++
				} else if !strings.Contains(answer.Error.Message, "task calls per second is reached") {
					t.Fatal(answer.Error)
				}
			}
			if want := map[bool]int{false: 3, true: 4}[f.restarts]; served != want { // without the call itself
				t.Errorf("%d calls were served, want %d", served, want)
			}
		})
		fated("Limits.Journal", task.Options{Limits: task.Limits{Journal: 2000}}, func(t *testing.T, x *fatedServer) {
			x.call(0, 0)
			x.settle()
			_, id := x.tasks()
			x.c.result("tasks/update", fmt.Sprintf(`{"taskId":%q,"inputResponses":{"input-1":{"action":"accept","content":{"name":"Ada"}}}}`, id), withExtension)
			time.Sleep(time.Second)
			got := x.c.task(id)
			if !strings.Contains(got, "the journal would take") {
				t.Errorf("got %s", got)
			}
		})
	}
}

// heapInUse returns the bytes of the objects that are reachable.
func heapInUse() int64 {
	runtime.GC()
	runtime.GC()
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	return int64(now.HeapAlloc)
}
