package task_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// The Requestor of the latest call about a task receives a notification for every move, in order.
// The notification holds the whole task, without related-task metadata.
//
// Proves TASK-48, TASK-50.
func TestStatusNotifications(t *testing.T) {
	runInBubble(t, task.Options{}, func(t *testing.T, m *task.Manager) {
		first, second := new(peer), new(peer)
		end := make(chan bool)
		created := create(t, m, task.Request{Via: first, Work: func(context.Context, *task.Run) (codec.Encoder, error) { <-end; return raw(`{}`), nil }})
		m.Get(t.Context(), "alice", created.TaskID, second)
		// The Requestor of another principal is ignored.
		m.Get(t.Context(), "bob", created.TaskID, first)
		close(end)
		synctest.Wait()
		state := get(t, m, created.TaskID)
		text, _ := codec.Marshal(&state)
		checkEqual(t, "messages to the second", []string{"notifications/tasks/status " + string(text)}, second.received())
		checkEqual(t, "messages to the first", []string(nil), first.received())
	})
	runInBubble(t, task.Options{Updates: task.Updates{Quiet: true}}, func(t *testing.T, m *task.Manager) {
		p := new(peer)
		create(t, m, task.Request{Via: p, Work: returns(`{}`)})
		synctest.Wait()
		checkEqual(t, "messages although Quiet is set", []string(nil), p.received())
	})
}

// Notifications of the work carry the related task.
//
// Proves TASK-46.
func TestNotifyAddsRelatedTask(t *testing.T) {
	runInBubble(t, task.Options{Updates: task.Updates{Quiet: true}}, func(t *testing.T, m *task.Manager) {
		p := new(peer)
		created := create(t, m, task.Request{Via: p, Work: func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			if got, ok := task.FromContext(ctx); !ok || got != run {
				t.Error("FromContext does not return the Run")
			}
			return raw(`{}`), run.Notify(ctx, "notifications/message", raw(`{"level":"info","data":1}`))
		}})
		synctest.Wait()
		want := fmt.Sprintf(`notifications/message {"_meta":{"io.modelcontextprotocol/related-task":{"taskId":%q}},"level":"info","data":1}`, created.TaskID)
		checkEqual(t, "messages", []string{want}, p.received())
	})
}
