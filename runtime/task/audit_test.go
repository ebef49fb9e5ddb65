package task_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// The audit hook receives every event, in order.
//
// Proves TASK-75.
func TestAudit(t *testing.T) {
	var mu sync.Mutex
	var got []string
	cfg := task.Options{Hooks: task.Hooks{Audit: func(e task.Event) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, fmt.Sprint(e.Kind, " ", e.Principal, " ", e.Task != "", " ", e.Method, " ", e.From, ">", e.To, " ", e.Err))
	}}}
	runInBubble(t, cfg, func(t *testing.T, m *task.Manager) {
		created := start(t, m, returns(`{}`))
		synctest.Wait()
		get(t, m, created.TaskID)
		result(t, m, created.TaskID)
		m.List(t.Context(), "alice", "")
		m.List(t.Context(), "alice", "nonsense")
		time.Sleep(2 * time.Hour)
		want := []string{
			"created alice true tools/call >working <nil>",
			"moved alice true tools/call working>completed <nil>",
			"read alice true tasks/get >completed <nil>",
			"read alice true tasks/result >completed <nil>",
			"read alice false tasks/list > <nil>",
			"refused alice false tasks/list > task: invalid cursor",
			"expired alice true tools/call >completed <nil>",
		}
		mu.Lock()
		defer mu.Unlock()
		checkEqual(t, "events", want, got)
		checkEqual(t, "stats", task.Stats{Created: 1, Completed: 1, Expired: 1, Reads: 3, Refused: 1}, m.Stats())
	})
}

// Work that has returned is not running, although a client does not read the status of its task.
func TestStatsCountWorkThatRuns(t *testing.T) {
	runInBubble(t, task.Options{Limits: task.Limits{Running: 1}}, func(t *testing.T, m *task.Manager) {
		for range 3 {
			create(t, m, task.Request{Via: new(unresponsivePeer), Work: returns(`{}`)})
		}
		end := make(chan bool)
		create(t, m, task.Request{Work: func(context.Context, *task.Run) (codec.Encoder, error) { <-end; return raw(`{}`), nil }})
		queued := create(t, m, task.Request{Work: returns(`{}`)})
		synctest.Wait()
		if s := m.Stats(); s.Completed != 3 || s.Running != 1 || s.Queued != 1 {
			t.Errorf("got %+v", s)
		}
		close(end)
		result(t, m, queued.TaskID)
		synctest.Wait()
		if s := m.Stats(); s.Completed != 5 || s.Running != 0 || s.Queued != 0 {
			t.Errorf("at the end: %+v", s)
		}
	})
}

func TestAuditTruncatesTaskID(t *testing.T) {
	var got task.Event
	m := newManager(t, task.Options{Hooks: task.Hooks{Audit: func(e task.Event) { got = e }}})
	id := strings.Repeat("x", 1<<20)
	if _, err := m.Get(t.Context(), "alice", id, nil); !errors.Is(err, task.ErrNotFound) {
		t.Errorf("got %v, want %v", err, task.ErrNotFound)
	}
	if got.Kind != task.EventRefused || len(got.Task) > 200 || !strings.HasPrefix(got.Task, "xxx") {
		t.Errorf("%s event has a task id of %d bytes", got.Kind, len(got.Task))
	}
}
