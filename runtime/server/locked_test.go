package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/bolt"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
)

// lockedStore is a store that another process uses until the test sets free.
type lockedStore struct {
	task.Store
	mu    sync.Mutex
	tries int
	free  error // returned by Acquire, unless it is nil
}

// set sets the error of Acquire. It returns how often Acquire was called.
func (s *lockedStore) set(free error) (tries int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = free
	return s.tries
}

func (s *lockedStore) Acquire() (func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tries++; s.free != nil {
		return nil, s.free
	}
	return s.Store.Acquire()
}

func TestServerWaitsForLockedStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &lockedStore{Store: memory.New(), free: fmt.Errorf("bolt: %w", task.ErrLocked)}
		s := newServer(t, server.Options{Tasks: task.Options{Store: store}, Session: session.Options{Principal: "ann"}})
		server.AddTool(s, "durable", "", sayHi, server.Durable())
		server.AddTool(s, "plain", "", sayHi)
		server.AddTool(s, "limited", "", sayHi, server.MaxRunning(1))
		server.AddTool(s, "required", "", sayHi, server.Tasks(receiver.Support{Mode: mcp.TaskSupportRequired}))
		server.AddTool(s, "labelled", "", sayHi, server.Durable(), server.RequireLabels("gpu"))
		c := connect(t, s, clientConfig{})
		modern := connectRounds(t, s)
		const hi = `{"content":[{"type":"text","text":"hi"}]}`
		discover := func() string {
			result, failed := modern.send("server/discover", `{}`, nil)
			if failed != nil {
				t.Error(failed)
			}
			return string(result)
		}
		for range 2 {
			c.expect("tools/call", `{"name":"durable"}`, hi)
			c.expect("tools/call", `{"name":"plain"}`, hi)
			equal(t, "modern call", "hi", modern.round("tools/call", `{"name":"durable"}`, nil, nil).text)
			for _, tool := range []string{"limited", "required", "labelled"} {
				_, err := c.Call(t.Context(), "tools/call", session.Raw(`{"name":"`+tool+`"}`))
				if !session.IsTemporary(err) || !strings.Contains(err.Error(), "another process uses their store") {
					t.Errorf("%s: got %v", tool, err)
				}
				got := modern.round("tools/call", `{"name":"`+tool+`"}`, nil, nil).text
				equal(t, tool, "-31050 tasks are not available: another process uses their store, try again later", got)
			}
			if c.Server().Capabilities.Tasks != nil || strings.Contains(discover(), "tasks\"") || s.Tasks() != nil {
				t.Error("the server has declared tasks")
			}
			time.Sleep(10 * time.Second)
		}
		if tries := store.set(nil); tries > 22 {
			t.Errorf("the store was tried %d times in 20 s", tries)
		}
		time.Sleep(2 * time.Second)
		if s.Tasks() == nil || !strings.Contains(discover(), "io.modelcontextprotocol/tasks") {
			t.Error("the server does not use the free store")
		}
		c.expect("tools/call", `{"name":"limited"}`, hi)
		next := connect(t, s, clientConfig{})
		if next.Server().Capabilities.Tasks == nil {
			t.Error("a new session has no tasks")
		}
		next.expectError("tools/call", `{"name":"required"}`, jsonrpc.CodeMethodNotFound) // it is not called as a task
	})
}

func TestServerEndsWhileStoreIsLocked(t *testing.T) {
	for _, free := range []error{task.ErrLocked, errors.New("damaged")} {
		synctest.Test(t, func(t *testing.T) {
			store := &lockedStore{Store: memory.New(), free: task.ErrLocked}
			s := newServer(t, server.Options{Tasks: task.Options{Store: store}})
			if err := s.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			store.set(free)
			time.Sleep(1500 * time.Millisecond)
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			synctest.Wait() // no goroutine is left
			if s.Tasks() != nil {
				t.Error("the server has tasks")
			}
		})
	}
}

// serveTasks serves standard input and output with tasks in a file.
func serveTasks(file string) error {
	s := server.New("tasks", "1", &server.Options{Tasks: task.Options{Store: bolt.File(file)}})
	server.AddTool(s, "plain", "", sayHi)
	server.AddTool(s, "gate", "", func(ctx context.Context, c *server.Call, in struct{ File string }) (string, error) {
		pid, err := server.Step(ctx, c, "pid", func(context.Context) (int, error) { return os.Getpid(), nil })
		if err != nil {
			return "", err
		}
		for _, err := os.Stat(in.File); err != nil; _, err = os.Stat(in.File) {
			select {
			case <-time.After(10 * time.Millisecond):
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		}
		return fmt.Sprint(pid, " ", os.Getpid()), nil
	}, server.Durable())
	return s.ServeStdio(context.Background())
}

// Two hosts start the same server with the same file. The second one has plain calls, and continues
// the task of the first one when that ends.
func TestTwoHostsStartOneServer(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	dir := t.TempDir()
	host := func() *client.Client {
		c, err := client.Command(t.Context(), stdio.Command{
			Path: os.Args[0], Env: append(os.Environ(), tasksEnv+"="+filepath.Join(dir, "tasks.db")), Stderr: io.Discard,
		}, &client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	text := func(result *mcp.CallToolResult, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		out, err := client.Text(result)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	first := host()
	gate := filepath.Join(dir, "gate")
	h, err := first.StartTool(t.Context(), "gate", map[string]string{"File": gate})
	if err != nil {
		t.Fatal(err)
	}
	second := host()
	equal(t, "plain call", "hi", text(second.CallTool(t.Context(), "plain", nil)))
	open := filepath.Join(dir, "open")
	if err := os.WriteFile(open, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	own := strings.Fields(text(second.CallTool(t.Context(), "gate", map[string]string{"File": open}))) // as a plain call
	first.Close()
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	id := h.ID()
	var result string
	for ctx := t.Context(); ; time.Sleep(50 * time.Millisecond) {
		found, err := second.AttachTool(id).Result(ctx)
		if err == nil {
			result = text(found, nil)
			break
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	got := strings.Fields(result)
	if len(got) != 2 || got[0] == own[0] || got[1] != own[0] {
		t.Errorf("the task has run in the processes %q, want another one and %s", got, own[0])
	}
}
