package server_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/internal/faultstore"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
)

var errDisk = errors.New("write /secret/tasks.db: no space left on device")

// faultKinds are the kinds of faults that are injected at one call of the store.
var faultKinds = []struct {
	name  string
	calls int           // number of calls that fail
	time  time.Duration // instead of calls: how long all calls fail
	fault faultstore.Fault
}{
	{"fails once", 1, 0, faultstore.Fault{Before: errDisk}},
	{"fails three times", 3, 0, faultstore.Fault{Before: errDisk}},
	{"fails for two seconds", 0, 2 * time.Second, faultstore.Fault{Before: errDisk}},
	{"takes effect, and fails", 1, 0, faultstore.Fault{After: errDisk}},
	{"takes effect, and fails three times", 3, 0, faultstore.Fault{After: errDisk}},
	{"is slow", 1, 0, faultstore.Fault{Delay: 3 * time.Second}},
}

// faultFates are the fates of a call of a durable tool.
var faultFates = []struct {
	name      string
	revisions []mcp.Revision
	after     time.Duration
}{
	{"session", session.Revisions(), 0},
	{"at once", session.ModernRevisions(), -1},
	{"promoted", session.ModernRevisions(), 20 * time.Millisecond},
}

// faultRun is one call of a durable tool.
type faultRun struct {
	t      *testing.T
	store  *faultstore.Store
	cancel bool // the client cancels the task when its user is asked

	mu     sync.Mutex
	counts map[string]int // of steps and of input requests
}

func (f *faultRun) count(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[what]++
}

// tool is the handler: steps one after the other and at the same time, an input request and a
// sleep.
func (f *faultRun) tool(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
	step := func(ctx context.Context, name string) error {
		_, err := server.Step(ctx, c, name, func(context.Context) (int, error) {
			f.count("step " + name)
			return 1, nil
		})
		return err
	}
	if err := step(ctx, "a"); err != nil {
		return "", err
	}
	time.Sleep(40 * time.Millisecond) // a promoted call becomes a task
	var who struct {
		Name string `json:"name"`
	}
	if _, err := server.Elicit(ctx, c, "Who?", &who); err != nil {
		return "", err
	}
	err := c.RunAll(ctx, func(ctx context.Context) error { return step(ctx, "b") }, func(ctx context.Context) error { return step(ctx, "c") })
	if err != nil {
		return "", err
	}
	if err := server.Sleep(ctx, c, "pause", func() time.Time { return time.Now().Add(100 * time.Millisecond) }); err != nil {
		return "", err
	}
	if err := step(ctx, "d"); err != nil {
		return "", err
	}
	return "done for " + who.Name, nil
}

// run calls the tool, and returns its result. It returns false if the call fails before its handler
// begins.
func (f *faultRun) run(revisions []mcp.Revision, after time.Duration) (result string, began bool) {
	t := f.t
	s, _ := withTasksOf(t, server.Options{Tasks: task.Options{Recovery: task.Recovery{ParkAfter: 50 * time.Millisecond}}}, f.store, func(s *server.Server) {
		server.AddTool(s, "do", "", f.tool, server.Tasks(receiver.Support{Mode: mcp.TaskSupportOptional, Restartable: true, After: after}))
	})
	clientConn, serverConn := inmemory.Pair(inmemory.Options{})
	must(s.Serve(serverConn))
	asked := make(chan bool, 10)
	o := &client.Options{Input: client.Input{Fill: func(ctx context.Context, _ *client.FormRequest) (*mcp.ElicitResult, error) {
		f.count("question")
		asked <- true
		if f.cancel {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		time.Sleep(80 * time.Millisecond) // the task is parked
		return client.Accept(map[string]any{"name": "Ada"})
	}}}
	o.Session.Revisions = revisions
	c := must(client.Connect(t.Context(), clientConn, o))
	defer c.Close()
	var group sync.WaitGroup
	defer group.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	h, err := c.StartTool(ctx, "do", nil)
	if err != nil {
		f.checkText(err)
		return "", false
	}
	if f.cancel {
		group.Go(func() { // ends with the call
			select {
			case <-asked:
			case <-ctx.Done():
			}
			for ctx.Err() == nil {
				if _, err := h.Cancel(ctx); err == nil {
					return
				}
				time.Sleep(time.Second)
			}
		})
	}
	got, err := h.Result(ctx)
	if err != nil {
		f.checkText(err)
		if rpc, ok := errors.AsType[*jsonrpc.Error](err); ok && f.cancel && rpc.Code == task.CodeCancelled || ctx.Err() == nil && f.cancel {
			return "cancelled", true
		}
		return err.Error(), true
	}
	return got.Content[0].(*mcp.TextContent).Text, true
}

func (f *faultRun) checkText(err error) {
	f.t.Helper()
	if strings.Contains(err.Error(), "secret") {
		f.t.Errorf("the client sees the error of the store: %v", err)
	}
}

// A fault of the store at any call only delays a durable tool: its result is right, each step runs
// once, and its user is asked once. A call that becomes a task before its first step waits for
// that. Only the creation of a task at once may fail, before its handler begins.
func TestStoreFaultAtEveryOperation(t *testing.T) {
	for _, fate := range faultFates {
		for _, kind := range faultKinds {
			for _, cancel := range []bool{false, true} {
				name := fmt.Sprintf("%s, %s, cancelled %v", fate.name, kind.name, cancel)
				t.Run(name, func(t *testing.T) {
					for n, reached := 1, true; reached; n++ {
						if n > 200 {
							t.Fatal("the store is used too often")
						}
						synctest.Test(t, func(t *testing.T) {
							reached = faultAt(t, fate.revisions, fate.after, n, kind.calls, kind.time, kind.fault, cancel)
						})
						if t.Failed() {
							t.Fatalf("with a fault at call %d", n)
						}
					}
				})
			}
		}
	}
}

// faultAt makes one call with a fault from the n-th call of the store on. It returns false if there
// are fewer calls.
func faultAt(t *testing.T, revisions []mcp.Revision, after time.Duration, n, calls int, duration time.Duration, fault faultstore.Fault, cancel bool) (reached bool) {
	var end time.Time
	store := faultstore.New(memory.New(), func(call int, operation string) faultstore.Fault {
		if after > 0 && operation == "Create" && fault.Delay > 0 {
			return faultstore.Fault{} // the handler may wait for a mutex, which stops the clock of the bubble
		}
		if call == n {
			end = time.Now().Add(duration)
		}
		if call >= n && (call < n+calls || time.Now().Before(end)) {
			return fault
		}
		return faultstore.Fault{}
	})
	f := &faultRun{t: t, store: store, cancel: cancel, counts: map[string]int{}}
	got, began := f.run(revisions, after)
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	if !began {
		if len(f.counts) > 0 && !cancel { // a user who never answers makes a plain call fail
			t.Errorf("the call failed after %v", f.counts)
		}
		return true
	}
	want, steps := "done for Ada", "map[question:1 step a:1 step b:1 step c:1 step d:1]"
	if cancel {
		want, steps = "cancelled", "map[question:1 step a:1]"
	}
	if counts := fmt.Sprint(f.counts); got != want || counts != steps {
		t.Errorf("got %q, want %q; effects %s, want %s", got, want, counts, steps)
	}
	return store.Calls() >= n
}
