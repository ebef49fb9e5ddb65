package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
)

// The lifetime of a task is the requested lifetime, up to TTL.Max. Lifetimes that are not positive
// fail, and large lifetimes do not overflow.
//
// Proves TASK-15, TASK-34, TASK-74.
func TestTTL(t *testing.T) {
	week := int64(7 * 24 * time.Hour / time.Millisecond)
	limited := task.Options{TTL: task.TTL{Max: time.Hour, Default: time.Minute}}
	unlimited := task.Options{TTL: task.TTL{Max: time.Hour, Unlimited: true}}
	for _, tt := range []struct {
		cfg       task.Options
		requested string // the task member
		want      string // the ttl member, or the code of the error
	}{
		{task.Options{}, `{}`, `3600000`},
		{limited, ``, `60000`},
		{limited, `{}`, `60000`},
		{limited, `{"ttl":1}`, `1`},
		{limited, `{"ttl":6e4}`, `60000`},
		{limited, `{"ttl":60000.0}`, `60000`},
		{limited, fmt.Sprintf(`{"ttl":%d}`, week), `3600000`},
		{limited, `{"ttl":1e13}`, `3600000`},
		{limited, `{"ttl":1e300}`, `3600000`},
		{limited, fmt.Sprintf(`{"ttl":%d}`, int64(math.MaxInt64)), `3600000`},
		{limited, `{"ttl":null}`, `3600000`},
		{limited, `{"ttl":0}`, `-32602`},
		{limited, `{"ttl":-5}`, `-32602`},
		{limited, `{"ttl":-1e300}`, `-32602`},
		{unlimited, `{}`, `null`},
		{unlimited, `{"ttl":null}`, `null`},
		{unlimited, `{"ttl":5}`, `5`},
		{unlimited, `{"ttl":1e13}`, `3600000`},
	} {
		runInBubble(t, tt.cfg, func(t *testing.T, m *task.Manager) {
			q := task.Request{Principal: "alice", Method: "tools/call", Work: untilDone}
			if tt.requested != "" {
				q.Task = new(mcp.TaskMetadata)
				if err := codec.Unmarshal([]byte(tt.requested), q.Task); err != nil {
					t.Fatal(err)
				}
			}
			created, err := m.Create(t.Context(), q)
			got := fmt.Sprint(wireCode(err))
			if err == nil {
				text, _ := codec.Marshal(&created)
				var members map[string]json.RawMessage
				if err := json.Unmarshal(text, &members); err != nil {
					t.Fatal(err)
				}
				got = string(members["ttl"])
				checkEqual(t, "read", created, get(t, m, created.TaskID))
			}
			if got != tt.want {
				t.Errorf("%s: got %s, want %s", tt.requested, got, tt.want)
			}
		})
	}
	for _, cfg := range []task.Options{
		{}, {Store: memory.New(), TTL: task.TTL{Max: -1}}, {Store: memory.New(), TTL: task.TTL{Max: time.Hour, Default: 2 * time.Hour}}, {Store: memory.New(), Limits: task.Limits{PageSize: -1}},
	} {
		if m, err := task.New(t.Context(), cfg); err == nil {
			m.Close(t.Context())
			t.Errorf("New accepted %+v", cfg)
		}
	}
}

// Tasks are dropped when they expire, in whatever status. Later calls of the principal fail with
// ErrExpired, and calls of other principals with ErrNotFound.
//
// Proves TASK-35, TASK-64, TASK-74.
func TestExpiry(t *testing.T) {
	runInBubble(t, task.Options{}, func(t *testing.T, m *task.Manager) {
		causes := make(chan error, 1)
		minute := &mcp.TaskMetadata{TTL: new(int64(60_000))}
		running := create(t, m, task.Request{Task: minute, Work: func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return raw(`{}`), nil
		}})
		finished := create(t, m, task.Request{Task: minute, Work: returns(`{}`)})
		longer := create(t, m, task.Request{Work: returns(`{}`)})
		before := time.Now()
		_, err := m.Result(t.Context(), "alice", running.TaskID, nil)
		if !errors.Is(err, task.ErrExpired) || time.Since(before) != time.Minute {
			t.Errorf("Result took %v: %v", time.Since(before), err)
		}
		if cause := <-causes; cause != task.ErrExpired {
			t.Errorf("cause of the work's context: %v", cause)
		}
		for _, id := range []string{running.TaskID, finished.TaskID} {
			_, err := m.Get(t.Context(), "alice", id, nil)
			checkEqual(t, "late", &jsonrpc.Error{Code: -32602, Message: fmt.Sprintf("task: expired: %q", id)}, task.WireError(err))
			_, err = m.Get(t.Context(), "bob", id, nil)
			checkEqual(t, "late and foreign", &jsonrpc.Error{Code: -32602, Message: fmt.Sprintf("task: not found: %q", id)}, task.WireError(err))
		}
		get(t, m, longer.TaskID)
		if tasks, _, err := m.List(t.Context(), "alice", ""); err != nil || len(tasks) != 1 {
			t.Errorf("%d tasks listed, %v", len(tasks), err)
		}
		synctest.Wait()
		if s := m.Stats(); s.Expired != 2 || s.Running != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// Each of many tasks expires at its own time.
func TestExpiryOfManyTasks(t *testing.T) {
	runInBubble(t, task.Options{Limits: task.Limits{Rate: -1, Tasks: -1, Bytes: -1}}, func(t *testing.T, m *task.Manager) {
		const n = 20_000
		for i := range n {
			ttl := int64(1 + i*7919%n)
			create(t, m, task.Request{Task: &mcp.TaskMetadata{TTL: &ttl}, Work: returns(`{}`)})
		}
		synctest.Wait()
		if s := m.Stats(); s.Running != 0 || s.Completed+s.Expired < n {
			t.Errorf("%+v", s)
		}
		for _, ms := range []int{1, 2, 500, 10_000, n} {
			time.Sleep(time.Until(bubbleStart().Add(time.Duration(ms) * time.Millisecond)))
			synctest.Wait()
			if got := m.Stats().Expired; got != uint64(ms) {
				t.Errorf("after %d ms: %d tasks expired", ms, got)
			}
		}
	})
}

// bubbleStart returns the start time of the clock in a synctest bubble.
func bubbleStart() time.Time { return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) }
